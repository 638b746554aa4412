package certs

import (
	"crypto"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cqld/node/config"
	"cqld/tlsconfig/authority"
)

// renewCommand does not embed common: it always replaces files, so --overwrite would have no meaning. It suits a timer:
// with --within, a run that finds nothing to renew changes nothing and succeeds.
type renewCommand struct {
	issuer
	Dir      string   `help:"Directory of the certificates." default:"certs" type:"path" env:"CQLD_CERTS_DIR"`
	Validity string   `help:"How long the certificates are valid, such as 90d. Default: as long as the replaced ones." placeholder:"DURATION"`
	Within   string   `help:"Renew only certificates that expire within this time, such as 30d." placeholder:"DURATION"`
	KeepKey  bool     `help:"Keep the private keys. Default: make new ones of the same type."`
	Files    []string `arg:"" optional:"" name:"file" help:"Certificates, NAME.crt; default: all in the directory except ca.crt." type:"path"`
}

// Help describes the subcommand.
func (*renewCommand) Help() string {
	return "Replaces NAME.crt and NAME.key by a certificate with the same subject, names, usages and key type. The " +
		"CA must be the one that has " +
		"issued it. `cqld certs renew ca.crt` renews the CA itself, with the same key, so that issued certificates " +
		"remain valid. " +
		"Nodes read the new files without a restart."
}

// Run renews certificates. It tries all of them and joins the errors, so one that fails does not prevent others. The
// exit status is not 0 if any failed.
func (c *renewCommand) Run(out io.Writer) error {
	// Renewal replaces files by definition.
	flags := common{Dir: c.Dir, Validity: c.Validity, Overwrite: true}
	validity, err := flags.validity()
	if err != nil {
		return err
	}
	// A negative value renews all. Zero renews only expired certificates.
	within := time.Duration(-1)
	if c.Within != "" {
		if within, err = config.ParseDuration(c.Within); err != nil {
			return fmt.Errorf("--within: %w", err)
		}
	}
	s := flags.store(c.issuer)
	ca, err := s.open(authority.Environment{})
	if err != nil {
		return err
	}
	files := c.Files
	if len(files) == 0 {
		// Named files are renewed even if they are outside the directory.
		if files, err = s.issued(); err != nil {
			return err
		}
	}
	var errs []error
	for _, f := range files {
		if err := c.renew(out, s, ca, f, validity, within); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f, err))
		}
	}
	return errors.Join(errs...)
}

// issued returns the certificates of the directory except the certificate of the authority. It is sorted by name, as
// the directory is read. Hidden files are temporary files of replace. A certificate without its key is included, and is
// an error later.
func (s *store) issued() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		path := filepath.Join(s.dir, e.Name())
		if strings.HasSuffix(e.Name(), certSuffix) && !strings.HasPrefix(e.Name(), ".") &&
			// The authority is renewed only if its file is named in the arguments.
			path != filepath.Clean(s.authorityCert()) {
			files = append(files, path)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s contains no certificates to renew", s.dir)
	}
	return files, nil
}

// renew replaces the certificate in file, which the directory need not contain, and its key. validity 0 means the
// validity of the old one; within below 0 means that the expiry date does not matter. The CA verifies its own signature
// in the old certificate: one of another authority with the same name is refused (ErrForeign).
func (c *renewCommand) renew(out io.Writer, s *store, ca *authority.Authority, file string, validity,
	within time.Duration) error {
	// The name of the key file is derived from the suffix.
	if !strings.HasSuffix(file, certSuffix) {
		return fmt.Errorf("the name of a certificate to be renewed ends with %s, and that of its key with %s",
			certSuffix, keySuffix)
	}
	old, key, err := s.read(file)
	if err != nil {
		return err
	}
	// Skipped certificates are reported, so the operator sees that they were found.
	if left := time.Until(old.NotAfter); within >= 0 && left > within {
		fmt.Fprintf(out, "%s: not renewed; it expires on %s\n", file, old.NotAfter.UTC().Format(time.DateOnly))
		return nil
	}
	// For the certificate of the authority itself, only the certificate is written: the key stays, so issued
	// certificates remain valid.
	if old.Equal(ca.Certificate) {
		renewed, err := ca.RenewAuthority(validity)
		if err != nil {
			return err
		}
		if err := replace(file, renewed.CertificatePEM(), certMode); err != nil {
			return err
		}
		printWritten(out, file, "", renewed.Certificate)
		return nil
	}
	// A nil signer makes a new key of the same type.
	var kept crypto.Signer
	if c.KeepKey {
		kept = key
	}
	pair, err := ca.Renew(old, kept, validity)
	if errors.Is(err, authority.ErrForeign) {
		return fmt.Errorf("%w; set --ca-cert and --ca-key to that one, or let it issue the certificate", err)
	}
	if err != nil {
		return err
	}
	if err := replacePair(file, keyPathOf(file), pair); err != nil {
		return err
	}
	printWritten(out, file, keyPathOf(file), pair.Certificate)
	return nil
}
