package certificate_test

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"cqld/internal/testclock"
	"cqld/login"
	"cqld/login/certificate"
	"cqld/server"
	"cqld/tlsconfig/authority"
)

// setup is an authenticator with the roles app, which may log in, and nl, which may not.
type setup struct {
	*certificate.Authenticator
	password *login.Authenticator
	events   []login.Event
}

func newSetup(t *testing.T, validator string, fallback bool) *setup {
	t.Helper()
	s := &setup{}
	identities := map[string]string{"spiffe://oracle/client/app": "app", "spiffe://oracle/client/nologin": "nl",
		"CN=subject,O=example":        "app",
		"spiffe://oracle/client/gone": "gone"}
	may := map[string]bool{"app": true, "nl": false}
	var err error
	s.password, err = login.New(login.Options{
		Lookup:  func(role string) (login.Role, bool) { l, ok := may[role]; return login.Role{Login: l}, ok },
		OnEvent: func(e login.Event) { s.events = append(s.events, e) },
		Clock:   &testclock.Clock{}, Random: rand.Reader, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	v, err := certificate.NewValidator(validator)
	if err != nil {
		t.Fatal(err)
	}
	s.Authenticator = certificate.New(certificate.Options{Validator: v, Password: s.password, Fallback: fallback,
		Role:     func(identity string) (string, bool) { role, ok := identities[identity]; return role, ok },
		CanLogin: func(role string) bool { return may[role] }})
	return s
}

func client() netip.AddrPort { return netip.MustParseAddrPort("192.0.2.7:4711") }

func issue(t *testing.T, r authority.Request) *x509.Certificate {
	t.Helper()
	ca, err := authority.New(authority.Environment{}, "CA", 0)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(r)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Certificate
}

// TestTextsAreThoseOfCassandra compares the answers with the answers of Cassandra 5.0.9 to the same certificates.
func TestTextsAreThoseOfCassandra(t *testing.T) {
	spiffe := func(name string) *x509.Certificate { return issue(t, authority.Client("oracle", name)) }
	named := &x509.Certificate{Subject: pkix.Name{CommonName: "subject", Organization: []string{"example"}}}
	for _, c := range []struct {
		what, validator string
		cert            *x509.Certificate
		role, refusal   string
		kind            login.Kind
		reason          login.Reason
		logged          string
	}{
		{"identity of a role", "org.apache.cassandra.auth.SpiffeCertificateValidator", spiffe("app"), "app", "",
			login.Success, login.NoReason, "app"},
		{"unknown identity", "SpiffeCertificateValidator", spiffe("unknown"), "",
			"Certificate identity 'spiffe://oracle/client/unknown' not authorized", login.Failure,
			login.UnknownIdentity, "spiffe://oracle/client/unknown"},
		{"role without LOGIN", "SpiffeCertificateValidator", spiffe("nologin"), "", "nl is not permitted to log in",
			login.Unauthorized, login.NoLogin, "nl"},
		{"dropped role", "SpiffeCertificateValidator", spiffe("gone"), "", "gone is not permitted to log in",
			login.Unauthorized, login.NoLogin, "gone"},
		{"no URI", "SpiffeCertificateValidator", issue(t, authority.Request{Name: "nosan", Client: true}), "",
			"Unable to extract Spiffe from the certificate",
			login.Failure, login.NoIdentity, ""},
		{"no certificate", "SpiffeCertificateValidator", nil, "", "Invalid or not supported certificate",
			login.Failure, login.NoCertificate, ""},
		{"subject", "SubjectCertificateValidator", named, "app", "", login.Success, login.NoReason, "app"},
		{"unknown subject", "SubjectCertificateValidator", spiffe("app"), "",
			"Certificate identity 'CN=app' not authorized", login.Failure, login.UnknownIdentity, "CN=app"},
		{"long identity", "SpiffeCertificateValidator",
			&x509.Certificate{URIs: []*url.URL{{Scheme: "spiffe", Host: "x", Path: strings.Repeat("/y", 2000)}}}, "",
			"Unable to extract client identity from certificate for authentication", login.Failure, login.NoIdentity,
			""},
		{"long subject", "SubjectCertificateValidator", &x509.Certificate{RawSubject: make([]byte, 10000)}, "",
			"Unable to extract client identity from certificate for authentication", login.Failure, login.NoIdentity,
			""},
	} {
		s := newSetup(t, c.validator, false)
		user, done, challenge, err := s.BeginCertificate(client(), c.cert).Evaluate(t.Context(), []byte("\x00x\x00y"))
		var bad *server.BadCredentials
		switch {
		case c.refusal == "" && (err != nil || !done || user != c.role || challenge != nil):
			t.Errorf("%s: %q, %t, %q, %v", c.what, user, done, challenge, err)
		case c.refusal != "" && (!errors.As(err, &bad) || bad.Message != c.refusal || user != "" || done):
			t.Errorf("%s: %q, %t, %v, want %s", c.what, user, done, err, c.refusal)
		}
		if len(s.events) != 1 || s.events[0].Kind != c.kind || s.events[0].Reason != c.reason ||
			s.events[0].Role != c.logged {
			t.Errorf("%s: events %+v", c.what, s.events)
		}
	}
}

func TestFallbackIsForClientsWithoutCertificateOnly(t *testing.T) {
	s := newSetup(t, "SpiffeCertificateValidator", true)
	if s.Class() != "org.apache.cassandra.auth.MutualTlsWithPasswordFallbackAuthenticator" {
		t.Error(s.Class())
	}
	var bad *server.BadCredentials
	_, _, _, err := s.BeginCertificate(client(), nil).Evaluate(t.Context(), []byte("\x00x\x00y"))
	if !errors.As(err, &bad) || bad.Message != "Provided username x and/or password are incorrect" {
		t.Errorf("without a certificate: %v", err)
	}
	unknown := issue(t, authority.Client("oracle", "unknown"))
	if _, _, _, err = s.BeginCertificate(client(), unknown).Evaluate(t.Context(),
		[]byte("\x00app\x00y")); !errors.As(err, &bad) ||
		bad.Message != "Certificate identity 'spiffe://oracle/client/unknown' not authorized" {
		t.Errorf("with an unknown identity: %v", err)
	}
	if s.Check("app", client()).Ended || !s.Check("nl", client()).Ended {
		t.Error("the standing of clients differs from the standing of their roles")
	}
}

func TestValidatorsHaveNames(t *testing.T) {
	for class, want := range map[string]string{"": "authenticator.parameters.validator_class_name is not set",
		"com.example.Validator": `validator_class_name "com.example.Validator" is not supported; it is SpiffeCertificateValidator or SubjectCertificateValidator`} {
		if _, err := certificate.NewValidator(class); err == nil || err.Error() != want {
			t.Errorf("%q: %v", class, err)
		}
	}
}

// FuzzValidators extracts identities from malformed certificates.
func FuzzValidators(f *testing.F) {
	ca, err := authority.NewCluster(authority.Environment{}, "Test Cluster", 0)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(ca.Certificate.Raw)
	if pair, err := ca.Issue(authority.Client("a", "b")); err == nil {
		f.Add(pair.Certificate.Raw)
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return
		}
		for _, class := range []string{"SpiffeCertificateValidator", "SubjectCertificateValidator"} {
			v, err := certificate.NewValidator(class)
			if err != nil {
				t.Fatal(err)
			}
			var bad *server.BadCredentials
			if identity, err := v(c); err != nil && (identity != "" || !errors.As(err, &bad)) {
				t.Errorf("%s: %q, %v", class, identity, err)
			}
		}
	})
}
