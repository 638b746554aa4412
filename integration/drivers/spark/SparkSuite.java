// Apache Spark with the Cassandra connector against cqld: see ../README.md.

import static com.datastax.spark.connector.japi.CassandraJavaUtil.javaFunctions;
import static com.datastax.spark.connector.japi.CassandraJavaUtil.mapTupleToRow;
import static com.datastax.spark.connector.japi.CassandraJavaUtil.someColumns;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.spark.connector.cql.CassandraConnector;
import com.datastax.spark.connector.rdd.CassandraTableScanRDD;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.spark.Partition;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import scala.Tuple2;

public class SparkSuite {
  static final String KS = System.getenv("CQLD_KEYSPACE");
  static final String CATALOG = "cqld." + KS + ".";
  static final String[] SPLITS = System.getenv("CQLD_SPARK_SPLITS").split(",");
  static final long WRITTEN = Long.parseLong(System.getenv("CQLD_SPARK_WRITTEN"));

  interface Check {
    void run() throws Exception;
  }

  final SparkSession spark;
  final CassandraConnector connector;

  SparkSuite(SparkSession spark) {
    this.spark = spark;
    this.connector = CassandraConnector.apply(spark.sparkContext());
  }

  public static void main(String[] args) {
    String dir = System.getenv("CQLD_SPARK_DIR");
    SparkSession spark =
        SparkSession.builder()
            .appName("cqld")
            .master("local[2]")
            .config("spark.ui.enabled", false)
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.local.dir", dir)
            .config("spark.sql.warehouse.dir", dir)
            .config("spark.sql.shuffle.partitions", 2)
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.extensions", "com.datastax.spark.connector.CassandraSparkExtensions")
            .config("spark.sql.catalog.cqld", "com.datastax.spark.connector.datasource.CassandraCatalog")
            .config("spark.cassandra.connection.host", System.getenv("CQLD_CONTACT_POINTS"))
            .config("spark.cassandra.input.consistency.level", "LOCAL_QUORUM")
            .config("spark.cassandra.output.concurrent.writes", 32)
            .getOrCreate();
    int failed = new SparkSuite(spark).run();
    spark.stop();
    System.exit(failed > 0 ? 1 : 0); // threads of the connector's cached sessions go on for a while
  }

  int run() {
    Map<String, Check> checks = new LinkedHashMap<>();
    checks.put("splits", this::splits);
    checks.put("locality", this::locality);
    checks.put("read", this::read);
    checks.put("count", this::count);
    checks.put("write", this::write);
    checks.put("pushdown", this::pushdown);
    checks.put("join", this::join);
    checks.put("types", this::types);
    checks.put("ttl", this::ttl);
    checks.put("conditional", this::conditional);
    checks.put("delete", this::delete);
    checks.put("overwrite", this::overwrite);
    checks.put("counters", this::counters);
    checks.put("catalog", this::catalog);
    int failed = 0;
    for (Map.Entry<String, Check> check : checks.entrySet()) {
      long began = System.currentTimeMillis();
      try {
        check.getValue().run();
        System.out.println("ok " + check.getKey() + " " + (System.currentTimeMillis() - began) + " ms");
      } catch (Throwable e) {
        failed++;
        e.printStackTrace();
        System.out.println("fail " + check.getKey() + " " + String.valueOf(e).replaceAll("\\s+", " "));
      }
    }
    return failed;
  }

  static void equal(Object got, Object want) {
    if (!want.equals(got)) throw new AssertionError("got " + got + ", want " + want);
  }

  static void hold(boolean condition, String message) {
    if (!condition) throw new AssertionError(message);
  }

  List<Row> cql(String statement) {
    return connector.jWithSessionDo((CqlSession s) -> s.execute(statement).all());
  }

  Dataset<org.apache.spark.sql.Row> table(String name) {
    return table(name, "512");
  }

  Dataset<org.apache.spark.sql.Row> table(String name, String splitMB) {
    return spark
        .read()
        .format("org.apache.spark.sql.cassandra")
        .option("keyspace", KS)
        .option("table", name)
        .option("spark.cassandra.input.split.sizeInMB", splitMB)
        .load();
  }

  void save(Dataset<org.apache.spark.sql.Row> rows, String table, SaveMode mode, String... options) {
    var writer = rows.write().format("org.apache.spark.sql.cassandra").option("keyspace", KS).option("table", table).mode(mode);
    for (int i = 0; i < options.length; i += 2) writer = writer.option(options[i], options[i + 1]);
    writer.save();
  }

  /** rowsOf are the rows of a query as texts, sorted. */
  List<String> rowsOf(Dataset<org.apache.spark.sql.Row> query) {
    return query.collectAsList().stream().map(Object::toString).sorted().collect(Collectors.toList());
  }

  /** splits prints how many partitions Spark makes of the table for each split size: the connector computes it from system.size_estimates. */
  void splits() {
    for (String mb : SPLITS) {
      System.out.println("splits " + mb + " " + table("big", mb).rdd().getNumPartitions());
    }
  }

  /** locality checks that each partition has a node that is a replica of all its ranges. */
  void locality() {
    CassandraTableScanRDD<?> rdd = javaFunctions(new JavaSparkContext(spark.sparkContext())).cassandraTable(KS, "big").rdd();
    Partition[] partitions = rdd.getPartitions();
    hold(partitions.length > 1, "Spark makes one partition");
    for (Partition p : partitions) {
      hold(rdd.getPreferredLocations(p).size() > 0, "a partition without a replica: " + p);
    }
  }

  /** read prints the count and the checksums of all rows, and how many milliseconds it took. */
  void read() {
    long began = System.currentTimeMillis();
    var rows = table("big", SPLITS[0]).selectExpr("count(*)", "sum(v)", "sum(crc32(s))").first();
    System.out.println("read " + rows.getLong(0) + " " + rows.getLong(1) + " " + rows.getLong(2) + " " + (System.currentTimeMillis() - began));
  }

  /** count prints the count that the servers make of each range. */
  void count() {
    System.out.println("count " + javaFunctions(new JavaSparkContext(spark.sparkContext())).cassandraTable(KS, "big").cassandraCount());
  }

  void write() {
    long began = System.currentTimeMillis();
    save(spark.range(0, WRITTEN, 1, 4).selectExpr("id as k", "id * id as v", "concat('row ', id) as s").toDF(), "written", SaveMode.Append);
    System.out.println("written " + WRITTEN + " " + (System.currentTimeMillis() - began));
  }

  void pushdown() {
    var big = table("big");
    var slice = big.filter("k = 5 AND c >= 3 AND c < 7");
    equal(slice.rdd().getNumPartitions(), 1);
    equal(rowsOf(slice.select("k", "c")), List.of("[5,3]", "[5,4]", "[5,5]", "[5,6]"));
    equal(rowsOf(big.filter("k IN (1, 2, 3) AND c = 0").select("k", "c")), List.of("[1,0]", "[2,0]", "[3,0]"));
    equal(rowsOf(big.filter("k = 5 AND v IS NOT NULL AND s LIKE '%x%'").select("k")), List.of());
    equal(javaFunctions(new JavaSparkContext(spark.sparkContext())).cassandraTable(KS, "big").where("k = ? AND c > ?", 7, 10).select("c").count(), 9L);
  }

  void join() {
    var keys = spark.range(0, 100, 1, 2).selectExpr("CAST(id AS INT) AS id");
    var written = spark.read().format("org.apache.spark.sql.cassandra").option("keyspace", KS).option("table", "written").option("directJoinSetting", "on").load();
    var joined = keys.join(written, keys.col("id").cast("bigint").equalTo(written.col("k"))).select("k", "v");
    String plan = joined.queryExecution().executedPlan().toString();
    hold(plan.contains("Cassandra Direct Join"), "no direct join: " + plan);
    equal(joined.selectExpr("count(*)", "sum(v)").first().toString(), "[100,328350]");
  }

  /**
   * types copies a table with every type that the connector knows, and compares the two as the server shows them. The connector
   * cannot write null in a column of a tuple type, writes an empty frozen list for null, and reads decimals with 18 digits after the point.
   */
  void types() {
    cql("CREATE TYPE IF NOT EXISTS " + KS + ".address (street text, number int)");
    String columns =
        "(k int PRIMARY KEY, a ascii, b bigint, bl blob, bo boolean, d date, de decimal, do double, f float, ip inet, i int, s smallint,"
            + " t text, ti time, ts timestamp, tu timeuuid, ty tinyint, u uuid, vi varint, l list<int>, se set<text>, m map<text, bigint>,"
            + " fl frozen<list<text>>, tup tuple<int, text>, ad frozen<address>, ads list<frozen<address>>)";
    cql("CREATE TABLE " + KS + ".types " + columns);
    cql("CREATE TABLE " + KS + ".types_copy " + columns);
    String into = "INSERT INTO " + KS + ".types JSON ";
    cql(
        into
            + "'{\"k\": 1, \"a\": \"ascii\", \"b\": -9223372036854775808, \"bl\": \"0x00ff\", \"bo\": true, \"d\": \"2024-02-29\", \"de\": 12345.678000000000000000,"
            + " \"do\": -1.5e300, \"f\": 0.25, \"ip\": \"2001:db8::1\", \"i\": -1, \"s\": -32768, \"t\": \"zażółć 🦆\", \"ti\": \"23:59:59.999999999\","
            + " \"ts\": \"2024-02-29 12:34:56.789Z\", \"tu\": \"50554d6e-29bb-11e5-b345-feff819cdc9f\", \"ty\": -128,"
            + " \"u\": \"123e4567-e89b-42d3-a456-426614174000\", \"vi\": 123456789012345678901234567890, \"l\": [3, 1, 2], \"se\": [\"a\", \"b\"],"
            + " \"m\": {\"x\": 1, \"y\": -1}, \"fl\": [\"\", \"z\"], \"tup\": [1, \"one\"], \"ad\": {\"street\": \"Main\", \"number\": 1},"
            + " \"ads\": [{\"street\": \"A\", \"number\": 2}, {\"street\": \"B\", \"number\": null}]}'");
    cql(into + "'{\"k\": 2, \"fl\": [], \"tup\": [null, \"\"]}'");
    cql(into + "'{\"k\": 3, \"fl\": [], \"tup\": [3, null], \"t\": \"\", \"bl\": \"0x\", \"d\": \"1960-01-01\", \"ts\": \"1969-12-31 23:59:59.999Z\", \"ip\": \"192.0.2.1\"}'");
    save(table("types"), "types_copy", SaveMode.Append);
    equal(texts("SELECT JSON * FROM " + KS + ".types_copy"), texts("SELECT JSON * FROM " + KS + ".types"));
    equal(texts("SELECT JSON * FROM " + KS + ".types_copy").size(), 3);
  }

  List<String> texts(String statement) {
    return cql(statement).stream().map(r -> r.getString(0)).sorted().collect(Collectors.toList());
  }

  /** ttl writes rows with a time to live and a timestamp, and reads both with the connector's SQL functions. */
  void ttl() {
    cql("CREATE TABLE " + KS + ".expiring (k int PRIMARY KEY, v text)");
    save(
        spark.range(0, 50, 1, 2).selectExpr("CAST(id AS INT) AS k", "'v' AS v"),
        "expiring",
        SaveMode.Append,
        "spark.cassandra.output.ttl",
        "1000",
        "spark.cassandra.output.timestamp",
        "1700000000000000");
    var got = spark.sql("SELECT k, ttl(v) AS t, writetime(v) AS w FROM " + CATALOG + "expiring").selectExpr("count(*)", "min(t) > 500", "max(t) <= 1000", "min(w)", "max(w)");
    equal(got.first().toString(), "[50,true,true,1700000000000000,1700000000000000]");
  }

  /** conditional inserts rows that may exist, and leaves columns of existing rows as they are. */
  void conditional() {
    cql("CREATE TABLE " + KS + ".kept (k int PRIMARY KEY, v text, w int)");
    cql("INSERT INTO " + KS + ".kept (k, v, w) VALUES (1, 'old', 1)");
    var rows = spark.range(0, 3, 1, 1).selectExpr("CAST(id AS INT) AS k", "'new' AS v", "2 AS w");
    save(rows, "kept", SaveMode.Append, "spark.cassandra.output.ifNotExists", "true");
    equal(rowsOf(table("kept").toDF()), List.of("[0,new,2]", "[1,old,1]", "[2,new,2]"));
    save(rows.selectExpr("k", "CAST(NULL AS STRING) AS v", "3 AS w"), "kept", SaveMode.Append, "spark.cassandra.output.ignoreNulls", "true");
    equal(rowsOf(table("kept").toDF()), List.of("[0,new,3]", "[1,old,3]", "[2,new,3]"));
  }

  void delete() {
    cql("CREATE TABLE " + KS + ".deleted (k int, c int, PRIMARY KEY (k, c))");
    save(spark.range(0, 100, 1, 2).selectExpr("CAST(id % 10 AS INT) AS k", "CAST(id AS INT) AS c"), "deleted", SaveMode.Append);
    List<Tuple2<Integer, Integer>> keys = new ArrayList<>();
    for (int c = 0; c < 100; c += 2) keys.add(new Tuple2<>(c % 10, c));
    var functions = javaFunctions(new JavaSparkContext(spark.sparkContext()).parallelize(keys, 2));
    functions.deleteFromCassandra(
        KS, "deleted", mapTupleToRow(Integer.class, Integer.class), someColumns(), someColumns("k", "c"), functions.defaultWriteConf(), functions.defaultConnector());
    equal(table("deleted").selectExpr("count(*)", "sum(c)", "min(c % 2)").first().toString(), "[50,2500,1]");
  }

  /** overwrite replaces the rows of a table, which the connector truncates before. */
  void overwrite() {
    save(spark.range(1000, 1010).selectExpr("CAST(id AS INT) AS k", "1 AS c"), "deleted", SaveMode.Overwrite, "confirm.truncate", "true");
    equal(table("deleted").selectExpr("count(*)", "min(k)").first().toString(), "[10,1000]");
  }

  void counters() {
    cql("CREATE TABLE " + KS + ".counts (k int PRIMARY KEY, n counter)");
    for (int i = 0; i < 2; i++) {
      save(spark.range(0, 20, 1, 2).selectExpr("CAST(id AS INT) AS k", "id AS n"), "counts", SaveMode.Append);
    }
    equal(table("counts").selectExpr("count(*)", "sum(n)").first().toString(), "[20,380]");
  }

  /** catalog defines and drops a keyspace and a table through Spark's SQL. */
  void catalog() {
    String made = CATALOG + "made";
    spark.sql("CREATE TABLE " + made + " (k INT, c INT, v STRING) USING cassandra PARTITIONED BY (k) TBLPROPERTIES (clustering_key='c.desc', gc_grace_seconds='1000')");
    spark.sql("INSERT INTO " + made + " SELECT * FROM VALUES (1, 1, 'a'), (1, 2, 'b'), (2, 1, 'c') AS rows (k, c, v)");
    spark.sql("ALTER TABLE " + made + " ADD COLUMNS (w BIGINT)");
    spark.sql("INSERT INTO " + made + " SELECT 3 AS k, 3 AS c, 'd' AS v, 7L AS w");
    equal(rowsOf(spark.sql("SELECT * FROM " + made)), List.of("[1,1,a,null]", "[1,2,b,null]", "[2,1,c,null]", "[3,3,d,7]"));
    equal(cql("SELECT c FROM " + KS + ".made WHERE k = 1").get(0).getInt(0), 2);
    hold(rowsOf(spark.sql("SHOW TABLES FROM cqld." + KS)).stream().anyMatch(r -> r.contains("made")), "SHOW TABLES does not list the table");
    hold(spark.sql("DESCRIBE TABLE EXTENDED " + made).collectAsList().toString().contains("gc_grace_seconds=1000"), "DESCRIBE shows no gc_grace_seconds");
    spark.sql("DROP TABLE " + made);
    spark.sql("CREATE DATABASE cqld." + KS + "_two WITH DBPROPERTIES (class='SimpleStrategy', replication_factor='1')");
    hold(rowsOf(spark.sql("SHOW DATABASES FROM cqld")).toString().contains(KS + "_two"), "SHOW DATABASES does not list the keyspace");
    spark.sql("DROP DATABASE cqld." + KS + "_two");
  }
}
