// The Java driver (4.x) against cqld: see ../README.md.

import com.datastax.oss.driver.api.core.AllNodesFailedException;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.CqlSessionBuilder;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.config.ProgrammaticDriverConfigLoaderBuilder;
import com.datastax.oss.driver.api.core.cql.*;
import com.datastax.oss.driver.api.core.data.CqlDuration;
import com.datastax.oss.driver.api.core.metadata.Node;
import com.datastax.oss.driver.api.core.metadata.NodeState;
import com.datastax.oss.driver.api.core.metadata.TokenMap;
import com.datastax.oss.driver.api.core.metadata.schema.ClusteringOrder;
import com.datastax.oss.driver.api.core.metadata.schema.TableMetadata;
import com.datastax.oss.driver.api.core.metadata.token.Token;
import com.datastax.oss.driver.api.core.servererrors.AlreadyExistsException;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import com.datastax.oss.driver.api.core.servererrors.SyntaxError;
import drivers.NoRetries;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.*;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;

public class Suite {
  static final String[] POINTS = System.getenv("CQLD_CONTACT_POINTS").split(",");
  static final String DC = env("CQLD_DATACENTER", "datacenter1");
  static final int NODES = Integer.parseInt(env("CQLD_NODES", "1"));
  static final int RF = Integer.parseInt(env("CQLD_RF", "1"));
  static final String KS = env("CQLD_KEYSPACE", "drv_java");

  static String env(String name, String otherwise) {
    String v = System.getenv(name);
    return v == null || v.isEmpty() ? otherwise : v;
  }

  interface Check {
    void run() throws Exception;
  }

  CqlSession session;

  static CqlSession open() {
    return open(DriverConfigLoader.programmaticBuilder());
  }

  static CqlSession open(ProgrammaticDriverConfigLoaderBuilder options) {
    return builder(options).build();
  }

  static CqlSessionBuilder builder() {
    return builder(DriverConfigLoader.programmaticBuilder());
  }

  private static CqlSessionBuilder builder(ProgrammaticDriverConfigLoaderBuilder options) {
    DriverConfigLoader config =
        options
            .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(15))
            .withDuration(DefaultDriverOption.METADATA_SCHEMA_REQUEST_TIMEOUT, Duration.ofSeconds(15))
            .withDuration(DefaultDriverOption.METADATA_SCHEMA_WINDOW, Duration.ofMillis(50))
            .withInt(DefaultDriverOption.REQUEST_TRACE_ATTEMPTS, 100)
            .withDuration(DefaultDriverOption.REQUEST_TRACE_INTERVAL, Duration.ofMillis(50))
            .withString(DefaultDriverOption.REQUEST_CONSISTENCY, "QUORUM")
            .build();
    var builder = CqlSession.builder().withConfigLoader(config).withLocalDatacenter(DC);
    Tls.configure(builder);
    for (String p : POINTS) {
      int colon = p.lastIndexOf(':');
      builder.addContactPoint(new InetSocketAddress(p.substring(0, colon), Integer.parseInt(p.substring(colon + 1))));
    }
    return builder;
  }

  static String keyspaceStatement() {
    return "CREATE KEYSPACE " + KS + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': " + RF + "}";
  }

  static void same(Object got, Object want, String what) {
    if (!Objects.equals(got, want)) {
      throw new AssertionError(what + ": got " + got + ", want " + want);
    }
  }

  static void until(String what, BooleanSupplier condition) throws InterruptedException {
    for (int i = 0; !condition.getAsBoolean(); i++) {
      if (i == 200) {
        throw new AssertionError("not seen: " + what);
      }
      Thread.sleep(50);
    }
  }

  int run() {
    session = open();
    Map<String, Check> checks = new LinkedHashMap<>();
    checks.put("connect", this::connect);
    checks.put("schema", this::schema);
    checks.put("types", this::types);
    checks.put("collections", this::collections);
    checks.put("nulls", this::nulls);
    checks.put("named", this::named);
    checks.put("paging", this::paging);
    checks.put("batch", this::batch);
    checks.put("metadata", this::metadata);
    checks.put("tokens", this::tokens);
    checks.put("events", this::events);
    checks.put("alter", this::alter);
    checks.put("errors", this::errors);
    checks.put("tracing", this::tracing);
    checks.put("drop", this::drop);
    boolean failed = false;
    for (var check : checks.entrySet()) {
      try {
        check.getValue().run();
        System.out.println("ok " + check.getKey());
      } catch (Throwable e) {
        failed = true;
        System.out.println("fail " + check.getKey() + " " + oneLine(e) + " at " + Arrays.stream(e.getStackTrace()).filter(f -> f.getClassName().equals("Suite")).findFirst().orElse(null));
      }
    }
    session.close();
    return failed ? 1 : 0;
  }

  static String oneLine(Throwable e) {
    return e.toString().replaceAll("\\s+", " ");
  }

  void connect() {
    Collection<Node> nodes = session.getMetadata().getNodes().values();
    same(nodes.size(), NODES, "nodes seen");
    for (Node n : nodes) {
      same(n.getDatacenter(), DC, "data center");
      if (n.getState() == NodeState.DOWN || n.getState() == NodeState.FORCED_DOWN) {
        throw new AssertionError("node " + n + " is " + n.getState());
      }
    }
    same(session.getContext().getProtocolVersion().toString(), "V5", "protocol version");
  }

  void schema() {
    session.execute("DROP KEYSPACE IF EXISTS " + KS);
    session.execute(keyspaceStatement());
    session.execute("USE " + KS);
    long began = System.nanoTime();
    for (int i = 0; i < 5; i++) {
      ResultSet rs = session.execute("CREATE TABLE quick" + i + " (k int PRIMARY KEY)");
      same(rs.getExecutionInfo().isSchemaInAgreement(), true, "schema agreement");
    }
    if (System.nanoTime() - began > 10_000_000_000L) {
      throw new AssertionError("five CREATE TABLE took more than 10 s");
    }
  }

  void types() throws Exception {
    String columns = "a ascii, bi bigint, bl blob, bo boolean, da date, de decimal, dou double, du duration, f float, i inet, n int, sm smallint, te text, ti time, ts timestamp, tu timeuuid, ty tinyint, u uuid, vc varchar, vi varint";
    session.execute("CREATE TABLE " + KS + ".types (k int PRIMARY KEY, " + columns + ")");
    String[] names = Arrays.stream(columns.split(", ")).map(c -> c.split(" ")[0]).toArray(String[]::new);
    PreparedStatement insert = session.prepare("INSERT INTO " + KS + ".types (k, " + String.join(", ", names) + ") VALUES (?" + ", ?".repeat(names.length) + ")");
    PreparedStatement select = session.prepare("SELECT " + String.join(", ", names) + " FROM " + KS + ".types WHERE k = ?");
    Object[][] rows = {
      {"ascii", Long.MAX_VALUE, ByteBuffer.wrap(new byte[] {0, -1}), true, LocalDate.parse("2020-02-29"), new BigDecimal("123.450"), 1.5e300, CqlDuration.newInstance(14, 3, 5000), 1.5f,
        InetAddress.getByName("127.0.0.1"), Integer.MAX_VALUE, Short.MAX_VALUE, "Grüße 世界", LocalTime.parse("23:59:59.999999999"), Instant.parse("2020-01-02T03:04:05.678Z"),
        UUID.fromString("50554d6e-29bb-11e5-b345-feff819cdc9f"), Byte.MAX_VALUE, UUID.fromString("123e4567-e89b-42d3-a456-426614174000"), "v", BigInteger.TEN.pow(30)},
      {"", Long.MIN_VALUE, ByteBuffer.allocate(0), false, LocalDate.parse("1969-12-31"), new BigDecimal("-1E-10"), Double.NEGATIVE_INFINITY, CqlDuration.newInstance(-1, -2, -3), -0.5f,
        InetAddress.getByName("2001:db8::1"), Integer.MIN_VALUE, Short.MIN_VALUE, "", LocalTime.MIDNIGHT, Instant.parse("1969-12-31T23:59:59Z"),
        UUID.fromString("00000000-0000-1000-8000-000000000000"), Byte.MIN_VALUE, new UUID(0, 0), "", BigInteger.TEN.pow(30).negate()},
    };
    for (int k = 0; k < rows.length; k++) {
      List<Object> values = new ArrayList<>(List.of(k));
      values.addAll(Arrays.asList(rows[k]));
      session.execute(insert.bind(values.toArray()));
      Row row = session.execute(select.bind(k)).one();
      for (int i = 0; i < names.length; i++) {
        same(row.getObject(i), rows[k][i], names[i]);
      }
    }
  }

  void collections() {
    session.execute("CREATE TABLE " + KS + ".collections (k int PRIMARY KEY, l list<int>, s set<text>, m map<text, int>, fl frozen<list<int>>, fm frozen<map<int, frozen<set<text>>>>)");
    PreparedStatement insert = session.prepare("INSERT INTO " + KS + ".collections (k, l, s, m, fl, fm) VALUES (?, ?, ?, ?, ?, ?)");
    PreparedStatement select = session.prepare("SELECT * FROM " + KS + ".collections WHERE k = ?");
    session.execute(insert.bind(1, List.of(3, 1, 3), Set.of("b", "a"), Map.of("x", 1, "y", 2), List.of(9, 8), Map.of(1, Set.of("p", "q"), 2, Set.of())));
    Row row = session.execute(select.bind(1)).one();
    same(row.getObject("l"), List.of(3, 1, 3), "list");
    same(row.getObject("s"), Set.of("a", "b"), "set");
    same(row.getObject("m"), Map.of("x", 1, "y", 2), "map");
    same(row.getObject("fl"), List.of(9, 8), "frozen list");
    same(row.getObject("fm"), Map.of(1, Set.of("p", "q"), 2, Set.of()), "frozen map of sets");
    session.execute(session.prepare("UPDATE " + KS + ".collections SET l = l + ?, s = s - ?, m[?] = ? WHERE k = ?").bind(List.of(7), Set.of("a"), "z", 26, 1));
    row = session.execute(select.bind(1)).one();
    same(row.getObject("l"), List.of(3, 1, 3, 7), "list appended");
    same(row.getObject("s"), Set.of("b"), "set reduced");
    same(row.getObject("m"), Map.of("x", 1, "y", 2, "z", 26), "map element");
    session.execute(insert.bind(2, List.of(), Set.of(), Map.of(), List.of(), Map.of()));
    row = session.execute(select.bind(2)).one();
    same(row.isNull("l") && row.isNull("s") && row.isNull("m"), true, "empty collections are null");
    same(row.isNull("fl"), false, "an empty frozen list is not null");
  }

  void nulls() {
    session.execute("CREATE TABLE " + KS + ".nulls (k int PRIMARY KEY, a text, b int)");
    PreparedStatement insert = session.prepare("INSERT INTO " + KS + ".nulls (k, a, b) VALUES (?, ?, ?)");
    session.execute(insert.bind(1, "a", 1));
    session.execute(insert.bind().setInt(0, 1).setInt(2, 2));
    same(pair(1), Arrays.asList("a", 2), "unset leaves the value");
    session.execute(insert.bind().setInt(0, 1).setToNull(1));
    same(pair(1), Arrays.asList(null, 2), "null deletes");
    session.execute(insert.bind(1, "", null));
    same(pair(1), Arrays.asList("", null), "empty is not null");
  }

  List<Object> pair(int k) {
    Row row = session.execute("SELECT a, b FROM " + KS + ".nulls WHERE k = " + k).one();
    return Arrays.asList(row.getObject(0), row.getObject(1));
  }

  void named() {
    PreparedStatement insert = session.prepare("INSERT INTO " + KS + ".nulls (k, a, b) VALUES (:k, :a, :b)");
    session.execute(insert.bind().setInt("b", 5).setString("a", "named").setInt("k", 7));
    SimpleStatement s = SimpleStatement.newInstance("SELECT a, b FROM " + KS + ".nulls WHERE k = :key", Map.of("key", 7));
    Row row = session.execute(s).one();
    same(row.getString("a") + row.getInt("b"), "named5", "named binds");
  }

  void paging() throws Exception {
    session.execute("CREATE TABLE " + KS + ".paging (k int, c int, v text, PRIMARY KEY (k, c))");
    PreparedStatement insert = session.prepare("INSERT INTO " + KS + ".paging (k, c, v) VALUES (?, ?, ?)");
    List<CompletionStage<AsyncResultSet>> pending = new ArrayList<>();
    for (int i = 0; i < 500; i++) {
      pending.add(session.executeAsync(insert.bind(i % 5, i, "v" + i)));
    }
    for (var p : pending) {
      p.toCompletableFuture().get();
    }
    Set<Integer> seen = new TreeSet<>();
    for (Row row : session.execute(SimpleStatement.newInstance("SELECT k, c FROM " + KS + ".paging").setPageSize(37))) {
      seen.add(row.getInt("c"));
    }
    same(seen.size(), 500, "rows over all pages");
    SimpleStatement one = SimpleStatement.newInstance("SELECT c FROM " + KS + ".paging WHERE k = 1");
    ResultSet first = session.execute(one.setPageSize(10));
    List<Integer> values = new ArrayList<>();
    for (int i = first.getAvailableWithoutFetching(); i > 0; i--) {
      values.add(first.one().getInt(0));
    }
    same(values.size(), 10, "first page");
    for (Row row : session.execute(one.setPagingState(first.getExecutionInfo().getPagingState()))) {
      values.add(row.getInt(0));
    }
    for (int i = 0; i < 100; i++) {
      same(values.get(i), 1 + 5 * i, "row " + i);
    }
    same(values.size(), 100, "rows with a paging state");
  }

  void batch() {
    PreparedStatement insert = session.prepare("INSERT INTO " + KS + ".nulls (k, a, b) VALUES (?, ?, ?)");
    int[][] keys = {{20, 21}, {22, 22}};
    BatchType[] kinds = {DefaultBatchType.UNLOGGED, DefaultBatchType.LOGGED};
    for (int i = 0; i < 2; i++) {
      SimpleStatement update = SimpleStatement.newInstance("UPDATE " + KS + ".nulls SET b = ? WHERE k = ?", 9, keys[i][1]);
      session.execute(BatchStatement.newInstance(kinds[i], insert.bind(keys[i][0], "x", 1), update));
      same(pair(keys[i][1]).get(1), 9, "batch");
    }
  }

  void metadata() {
    session.execute("CREATE TABLE " + KS + ".meta (a int, b text, c int, d list<int>, s int STATIC, PRIMARY KEY ((a, b), c)) WITH CLUSTERING ORDER BY (c DESC) AND comment = 'noted'");
    TableMetadata table = session.getMetadata().getKeyspace(KS).get().getTable("meta").get();
    same(table.getPartitionKey().toString().contains("a"), true, "partition key");
    same(table.getPartitionKey().size(), 2, "partition key columns");
    same(table.getClusteringColumns().values().iterator().next(), ClusteringOrder.DESC, "clustering order");
    same(table.getColumn("d").get().getType().asCql(true, false), "list<int>", "type");
    same(table.getColumn("s").get().isStatic(), true, "static");
    same(session.prepare("SELECT * FROM " + KS + ".meta WHERE b = ? AND a = ?").getPartitionKeyIndices(), List.of(1, 0), "key indexes");
  }

  void tokens() {
    TokenMap map = session.getMetadata().getTokenMap().get();
    same(map.getTokenRanges().size(), 16 * NODES, "tokens");
    session.execute("CREATE TABLE " + KS + ".tokens (k text PRIMARY KEY)");
    for (String key : List.of("theo", "Grüße", "a key of more than sixteen bytes é")) {
      session.execute(SimpleStatement.newInstance("INSERT INTO " + KS + ".tokens (k) VALUES (?)", key));
      Row row = session.execute(SimpleStatement.newInstance("SELECT token(k) FROM " + KS + ".tokens WHERE k = ?", key)).one();
      ByteBuffer bytes = ByteBuffer.wrap(key.getBytes(StandardCharsets.UTF_8));
      Token token = map.newToken(bytes.duplicate());
      same(map.format(token), Long.toString(row.getLong(0)), key);
      same(map.getReplicas(KS, bytes).size(), RF, "replicas");
    }
  }

  boolean tableSeen(String name) {
    return session.getMetadata().getKeyspace(KS).flatMap(k -> k.getTable(name)).isPresent();
  }

  void events() throws Exception {
    try (CqlSession other = open()) {
      other.execute("CREATE TABLE " + KS + ".seen (k int PRIMARY KEY)");
      until("the table another session made", () -> tableSeen("seen"));
      other.execute("DROP TABLE " + KS + ".seen");
      until("the table another session dropped", () -> !tableSeen("seen"));
    }
  }

  void alter() {
    session.execute("CREATE TABLE " + KS + ".altered (k int PRIMARY KEY, a int)");
    PreparedStatement select = session.prepare("SELECT * FROM " + KS + ".altered");
    session.execute("INSERT INTO " + KS + ".altered (k, a) VALUES (1, 2)");
    same(session.execute(select.bind()).one().getColumnDefinitions().size(), 2, "columns");
    session.execute("ALTER TABLE " + KS + ".altered ADD aa text");
    session.execute("UPDATE " + KS + ".altered SET aa = 'new' WHERE k = 1");
    for (int i = 0; i < 3 * NODES; i++) {
      Row row = session.execute(select.bind()).one();
      same(row.getString("aa"), "new", "a prepared SELECT * sees the new column");
      same(row.getInt("a"), 2, "and the old one");
    }
  }

  void errors() {
    Map<String, Class<?>> cases = new LinkedHashMap<>();
    cases.put("SELEC", SyntaxError.class);
    cases.put("SELECT * FROM " + KS + ".nosuch", InvalidQueryException.class);
    cases.put("CREATE TABLE " + KS + ".altered (k int PRIMARY KEY)", AlreadyExistsException.class);
    for (var c : cases.entrySet()) {
      try {
        session.execute(c.getKey());
      } catch (RuntimeException e) {
        same(e.getClass(), c.getValue(), c.getKey());
        continue;
      }
      throw new AssertionError(c.getKey() + " was accepted");
    }
  }

  void tracing() {
    SimpleStatement s = SimpleStatement.newInstance("SELECT * FROM " + KS + ".nulls WHERE k = 7").setTracing(true);
    QueryTrace trace = session.execute(s).getExecutionInfo().getQueryTrace();
    same(trace.getEvents().isEmpty(), false, "trace without events");
  }

  void drop() throws Exception {
    session.execute("DROP KEYSPACE " + KS);
    until("the keyspace dropped", () -> session.getMetadata().getKeyspace(KS).isEmpty());
  }

  static AtomicBoolean stopAtEndOfInput() {
    AtomicBoolean stop = new AtomicBoolean();
    Thread input = new Thread(() -> {
      try {
        while (System.in.read() >= 0) {}
      } catch (IOException e) {
        // The end of the input is what is waited for, however it comes.
      }
      stop.set(true);
    });
    input.setDaemon(true);
    input.start();
    return stop;
  }

  static int failover() throws Exception {
    try (CqlSession session = open()) {
      session.execute("DROP KEYSPACE IF EXISTS " + KS);
      session.execute(keyspaceStatement());
      session.execute("CREATE TABLE " + KS + ".acked (id int PRIMARY KEY)");
      PreparedStatement insert = session.prepare(SimpleStatement.newInstance("INSERT INTO " + KS + ".acked (id) VALUES (?)").setIdempotent(true));
      PreparedStatement select = session.prepare(SimpleStatement.newInstance("SELECT id FROM " + KS + ".acked WHERE id = ?").setIdempotent(true));
      AtomicBoolean stop = stopAtEndOfInput();
      System.out.println("ready");
      List<Integer> acked = new ArrayList<>();
      for (int id = 0; !stop.get(); id++) {
        try {
          session.execute(insert.bind(id));
          acked.add(id);
          System.out.println("acked " + System.currentTimeMillis() + " " + id);
          if (id % 10 == 0 && session.execute(select.bind(id)).one() == null) {
            System.out.println("missing " + id);
          }
        } catch (RuntimeException e) {
          report(e);
        }
        Thread.sleep(2);
      }
      for (int id : acked) {
        if (session.execute(select.bind(id)).one() == null) {
          System.out.println("missing " + id);
        }
      }
      System.out.println("done");
      session.execute("DROP KEYSPACE " + KS);
    }
    return 0;
  }

  static void report(RuntimeException e) {
    String more = e instanceof AllNodesFailedException ? " " + ((AllNodesFailedException) e).getAllErrors() : "";
    System.out.println("error " + System.currentTimeMillis() + " " + oneLine(e) + more.replaceAll("\\s+", " "));
  }

  static int rolling() throws Exception {
    try (CqlSession session = open(DriverConfigLoader.programmaticBuilder().withClass(DefaultDriverOption.RETRY_POLICY_CLASS, NoRetries.class))) {
      session.execute("DROP KEYSPACE IF EXISTS " + KS);
      session.execute(keyspaceStatement());
      session.execute("CREATE TABLE " + KS + ".rolling (id int PRIMARY KEY)");
      PreparedStatement[] statements = {
        session.prepare("INSERT INTO " + KS + ".rolling (id) VALUES (?)"), session.prepare("SELECT id FROM " + KS + ".rolling WHERE id = ?")
      };
      AtomicBoolean stop = stopAtEndOfInput();
      AtomicLong answered = new AtomicLong();
      System.out.println("ready");
      final int workers = 4;
      List<Thread> threads = new ArrayList<>();
      for (int w = 0; w < workers; w++) {
        final int first = w;
        Thread t = new Thread(() -> {
          for (int id = first; !stop.get(); id += workers) {
            for (PreparedStatement statement : statements) {
              try {
                session.execute(statement.bind(id));
                answered.incrementAndGet();
              } catch (RuntimeException e) {
                report(e);
              }
              try {
                Thread.sleep(5);
              } catch (InterruptedException e) {
                return;
              }
            }
          }
        });
        threads.add(t);
        t.start();
      }
      for (Thread t : threads) {
        t.join();
      }
      System.out.println("answered " + answered.get());
      System.out.println("done");
    }
    return 0;
  }

  public static void main(String[] args) throws Exception {
    switch (args[0]) {
      case "failover" -> System.exit(failover());
      case "rolling" -> System.exit(rolling());
      case "login" -> System.exit(Login.run());
      default -> System.exit(new Suite().run());
    }
  }
}
