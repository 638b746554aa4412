// TLS of the Java driver: see ../README.md.

import com.datastax.oss.driver.api.core.CqlSessionBuilder;
import com.datastax.oss.driver.api.core.ssl.ProgrammaticSslEngineFactory;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

final class Tls {
  private Tls() {}

  /** Makes sessions use TLS with the certificate authority that CQLD_TLS_CA names, and verify host names. */
  static void configure(CqlSessionBuilder builder) {
    String file = Suite.env("CQLD_TLS_CA", "");
    if (file.isEmpty()) {
      return;
    }
    try (InputStream in = Files.newInputStream(Path.of(file))) {
      KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
      store.load(null);
      store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(in));
      TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
      trust.init(store);
      SSLContext context = SSLContext.getInstance("TLS");
      context.init(null, trust.getTrustManagers(), null);
      builder.withSslEngineFactory(new ProgrammaticSslEngineFactory(context, null, true));
    } catch (IOException | GeneralSecurityException e) {
      throw new IllegalStateException(e);
    }
  }
}
