// Checks of credentials with the Java driver: see ../README.md.

import com.datastax.oss.driver.api.core.AllNodesFailedException;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.auth.AuthenticationException;
import java.util.List;

final class Login {
  private static final String USER = Suite.env("CQLD_USER", "");
  private static boolean failed;

  private Login() {}

  /** Connects with correct and with wrong credentials. */
  static int run() {
    check("correct", () -> {
      try (CqlSession session = Suite.builder().withAuthCredentials(USER, Suite.env("CQLD_PASSWORD", "")).build()) {
        Suite.same(session.execute("SELECT key FROM system.local").one().getString(0), "local", "key");
        session.execute("DROP KEYSPACE IF EXISTS " + Suite.KS);
        session.execute(Suite.keyspaceStatement());
        session.execute("CREATE TABLE " + Suite.KS + ".t (k int PRIMARY KEY, v text)");
        session.execute("INSERT INTO " + Suite.KS + ".t (k, v) VALUES (1, 'written')");
        Suite.same(session.execute("SELECT v FROM " + Suite.KS + ".t WHERE k = 1").one().getString(0), "written", "value");
        session.execute("DROP KEYSPACE " + Suite.KS);
      }
    });
    check("wrong", () -> refused(USER));
    check("unknown", () -> refused("no_such_role"));
    return failed ? 1 : 0;
  }

  private static void check(String name, Suite.Check check) {
    try {
      check.run();
      System.out.println("ok " + name);
    } catch (Exception | AssertionError e) {
      failed = true;
      System.out.println("fail " + name + " " + Suite.oneLine(e));
    }
  }

  private static void refused(String user) {
    try (CqlSession session = Suite.builder().withAuthCredentials(user, "wrong").build()) {
      throw new AssertionError(user + " is logged in");
    } catch (AllNodesFailedException e) {
      for (List<Throwable> errors : e.getAllErrors().values()) {
        for (Throwable error : errors) {
          Suite.same(error.getClass(), AuthenticationException.class, "error " + error);
          String text = "Provided username " + user + " and/or password are incorrect";
          Suite.same(error.getMessage().contains(text), true, error.getMessage());
        }
      }
    }
  }
}
