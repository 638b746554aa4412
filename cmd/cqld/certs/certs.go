package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"cqld/node/config"
	"cqld/tlsconfig"
	"cqld/tlsconfig/authority"
)

// Commands are the subcommands of `cqld certs`. Each one works without a node, so it can run on a machine that has no
// access to the cluster.
type Commands struct {
	Init   initCommand   `cmd:"" help:"Create a certificate authority (CA) for a cluster."`
	Node   nodeCommand   `cmd:"" help:"Create the certificate of a node, for clients and other nodes."`
	Client clientCommand `cmd:"" help:"Create the certificate of a client, for require_client_auth or MutualTlsAuthenticator."`
	Renew  renewCommand  `cmd:"" help:"Replace certificates by ones with the same names and a later expiry date."`
}

// common are the flags of all subcommands.
type common struct {
	Dir       string `help:"Directory of the certificates." default:"certs" type:"path" env:"CQLD_CERTS_DIR"`
	Validity  string `help:"How long the certificates are valid, such as 90d." placeholder:"DURATION"`
	Overwrite bool   `help:"Replace existing files."`
}

// issuer are the flags of subcommands that need the private key of the CA. An option for the password exists besides
// the variable, but arguments are visible to other users of the machine.
type issuer struct {
	CACert        string `name:"ca-cert" help:"Certificate of the CA; default: ca.crt in the directory." type:"path" placeholder:"FILE"`
	CAKey         string `name:"ca-key" help:"Private key of the CA; default: ca.key in the directory." type:"path" placeholder:"FILE"`
	CAKeyPassword string `name:"ca-key-password" help:"Password of the CA's private key." env:"CQLD_CA_KEY_PASSWORD" placeholder:"TEXT"`
	Cluster       string `help:"Name of the cluster; default: that of the CA." placeholder:"NAME"`
}

// store returns the directory of the flags. The zero issuer means the CA files of the directory.
func (c *common) store(i issuer) *store {
	return &store{dir: c.Dir, overwrite: c.Overwrite, authority: authorityFiles{i.CACert, i.CAKey, i.CAKeyPassword}}
}

// validity returns the value of --validity, or 0 if it is not set: package authority then takes its default. Zero and
// negative durations are errors. The unit d (day) is cassandra.yaml's; time.ParseDuration does not accept it.
func (c *common) validity() (time.Duration, error) {
	if c.Validity == "" {
		return 0, nil
	}
	d, err := config.ParseDuration(c.Validity)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("--validity: %q is not a duration such as 90d or 12h", c.Validity)
	}
	return d, nil
}

// initCommand does not embed issuer, because it makes the CA itself. The name of the cluster is the trust domain of all
// identities that the CA issues: spiffe://CLUSTER/...
type initCommand struct {
	common
	Cluster string `help:"Name of the cluster." default:"cqld" placeholder:"NAME"`
}

// Help describes the subcommand.
func (*initCommand) Help() string {
	return "Writes ca.crt, which all nodes and clients need, and ca.key, which signs certificates. Keep ca.key away " +
		"from the nodes: " +
		"with it, anyone can make certificates for the cluster. The CA is valid for 10 years, unless --validity is set."
}

// Run makes the certificate authority. It writes nothing if one of the two files exists and --overwrite is not set.
func (c *initCommand) Run(out io.Writer) error {
	validity, err := c.validity()
	if err != nil {
		return err
	}
	s := c.store(issuer{})
	// Replacing the CA would invalidate all issued certificates, so this is checked before a key is generated.
	if err := s.check(authorityName); err != nil {
		return err
	}
	// The zero Environment uses the machine's clock and randomness.
	ca, err := authority.NewCluster(authority.Environment{}, c.Cluster, validity)
	if err != nil {
		return err
	}
	if err := s.write(authorityName, &ca.Pair); err != nil {
		return err
	}
	printWritten(out, s.cert(authorityName), s.key(authorityName), ca.Certificate)
	fmt.Fprintf(out, "Next: cqld certs node --dir %s ADDRESS...\n", c.Dir)
	return nil
}

// nodeCommand issues a certificate for both purposes of a node: it serves clients and other nodes, and connects to
// nodes. One of the hosts must be the address by which others connect (rpc_address, listen_address, or what is
// broadcast), because clients compare it with the certificate.
type nodeCommand struct {
	common
	issuer
	Name  string   `help:"Name of the node in its identity and of its files; default: the first host." placeholder:"NAME"`
	Hosts []string `arg:"" name:"host" help:"IP addresses and DNS names under which clients and other nodes connect to the node."`
}

// Help describes the subcommand.
func (*nodeCommand) Help() string {
	return "Writes NAME.crt and NAME.key, and prints the options for cassandra.yaml. The certificate contains the " +
		"hosts, and the " +
		"identity spiffe://CLUSTER/node/NAME. It is valid for 90 days, unless --validity is set; nodes read renewed " +
		"files without a restart."
}

// Run makes the certificate of a node. Without --name, the first host is the name.
func (c *nodeCommand) Run(out io.Writer) error {
	name := c.Name
	if name == "" {
		name = c.Hosts[0]
	}
	// Certificates have separate fields for addresses and names, and peers check only one of them.
	var dns []string
	var addresses []netip.Addr
	for _, h := range c.Hosts {
		if a, err := netip.ParseAddr(h); err == nil {
			// A certificate cannot contain a zone, which names an interface of one machine.
			addresses = append(addresses, a.WithZone(""))
		} else if err := checkHost(h); err != nil {
			return err
		} else {
			dns = append(dns, h)
		}
	}
	s, cert, err := c.issue(c.issuer, name, func(cluster string) authority.Request {
		return authority.Node(cluster,
			name, dns, addresses)
	})
	if err != nil {
		return err
	}
	// The options follow the files, so that they can be copied into the configuration.
	printWritten(out, s.cert(name), s.key(name), cert)
	return printOptions(out, s, name)
}

// checkHost refuses text that cannot be a DNS name, such as an address with a port. DNS names have at most 253
// characters.
func checkHost(h string) error {
	if h == "" || len(h) > 253 || strings.ContainsAny(h, " :/\\@\x00") {
		return fmt.Errorf("%q is neither an IP address nor a DNS name", h)
	}
	return nil
}

// clientCommand issues a certificate that identifies a client. It contains no host names, because nothing connects to a
// client. The role need not exist yet.
type clientCommand struct {
	common
	issuer
	Name string `arg:"" help:"Name of the client, such as the role that it uses."`
}

// Help describes the subcommand.
func (*clientCommand) Help() string {
	return "Writes NAME.crt and NAME.key. The certificate contains the identity spiffe://CLUSTER/client/NAME, which " +
		"MutualTlsAuthenticator " +
		"maps to a role: ADD IDENTITY 'spiffe://CLUSTER/client/NAME' TO ROLE 'NAME'. It is valid for 90 days, " +
		"unless --validity is set."
}

// Run makes the certificate of a client. It prints the section for cqlshrc, and the statement that maps the identity to
// a role of the same name.
func (c *clientCommand) Run(out io.Writer) error {
	s, cert, err := c.issue(c.issuer, c.Name, func(cluster string) authority.Request {
		return authority.Client(cluster,
			c.Name)
	})
	if err != nil {
		return err
	}
	printWritten(out, s.cert(c.Name), s.key(c.Name), cert)
	// The certificate has just been issued with this identity, so there is one.
	identity, _ := tlsconfig.SPIFFE(cert)
	fmt.Fprintf(out, "\ncqlshrc:\n[ssl]\ncertfile = %s\nvalidate = true\nuserkey = %s\nusercert = %s\n",
		absolute(s.authorityCert()), absolute(s.key(c.Name)), absolute(s.cert(c.Name)))
	fmt.Fprintf(out, "\nWith MutualTlsAuthenticator:\nADD IDENTITY '%s' TO ROLE '%s';\n", identity,
		strings.ReplaceAll(c.Name, "'", "''"))
	return nil
}

// issue makes a certificate and writes its files. request returns the content for the name of the cluster. Nothing is
// written unless all checks succeed. The caller prints the result, after the files have been written.
func (c *common) issue(i issuer, name string, request func(cluster string) authority.Request) (*store,
	*x509.Certificate, error) {
	// The name becomes a file name: it must stay in the directory, must not replace the CA's file, and must not start
	// with a dot, because renew skips hidden files.
	if name == authorityName || name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return nil, nil, fmt.Errorf("%q cannot be the name of a certificate; set another --name", name)
	}
	validity, err := c.validity()
	if err != nil {
		return nil, nil, err
	}
	s := c.store(i)
	if err := s.check(name); err != nil {
		return nil, nil, err
	}
	ca, err := s.open(authority.Environment{})
	if err != nil {
		return nil, nil, err
	}
	// Every identity begins with the trust domain of the cluster. A CA of another program has none, so the flag is
	// needed for it.
	cluster := i.Cluster
	if cluster == "" {
		cluster = ca.Cluster()
	}
	if cluster == "" {
		return nil, nil, errors.New("the certificate of the CA does not name a cluster; set --cluster")
	}
	r := request(cluster)
	// Zero means the default of package authority.
	r.Validity = validity
	pair, err := ca.Issue(r)
	if err != nil {
		return nil, nil, err
	}
	return s, pair.Certificate, s.write(name, pair)
}

// printWritten reports a certificate, the names for which it is valid, and its key file. An empty key means that the
// key has not changed. The names are printed because a wrong name is otherwise noticed only when a client refuses the
// certificate.
func printWritten(w io.Writer, cert, key string, c *x509.Certificate) {
	fmt.Fprintf(w, "%s: certificate of %s, valid until %s\n", cert, c.Subject, c.NotAfter.UTC().Format(time.DateOnly))
	var names []string
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	names = append(names, c.DNSNames...)
	for _, u := range c.URIs {
		names = append(names, u.String())
	}
	if len(names) > 0 {
		fmt.Fprintf(w, "  for %s\n", strings.Join(names, ", "))
	}
	if key != "" {
		fmt.Fprintf(w, "%s: its private key; keep it secret\n", key)
	}
}

// printOptions prints the configuration options that use a node's certificate. The same files serve both sections,
// because the certificate allows both usages.
func printOptions(w io.Writer, s *store, name string) error {
	// Absolute paths, because the node may run in another directory.
	files := fmt.Sprintf("  certificate: %s\n  private_key: %s\n  trusted_certificates: %s\n",
		yamlText(absolute(s.cert(name))),
		yamlText(absolute(s.key(name))), yamlText(absolute(s.authorityCert())))
	_, err := fmt.Fprintf(w, "\nOptions for the configuration file:\n\nclient_encryption_options:\n  enabled: true\n%s"+
		"server_encryption_options:\n  internode_encryption: all\n%s", files, files)
	return err
}

// yamlText quotes a path. Inside single quotes, YAML interprets only the single quote, which is doubled.
func yamlText(path string) string { return "'" + strings.ReplaceAll(path, "'", "''") + "'" }

// absolute returns the absolute path, because the node has another working directory. If it cannot be determined, the
// path is returned unchanged.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
