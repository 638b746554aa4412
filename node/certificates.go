package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"cqld/node/config"
	"cqld/node/control"
	"cqld/tlsconfig"
)

// certificates are the open certificate files of a node.
type certificates struct {
	clients *tlsconfig.Source // for CQL and Azure Tables clients; nil without TLS
	nodes   *tlsconfig.Source // for connections with other nodes; nil without TLS
	control *tlsconfig.Source // for control_address; nil without TLS
}

// openCertificates reads the certificate files. A node with files that cannot be used does not start.
func (n *Node) openCertificates() (err error) {
	if e := &n.opts.ClientEncryption; e.Used() {
		if n.certificates.clients, err = n.openSource("client_encryption_options", e); err != nil {
			return err
		}
	}
	if e := &n.opts.InternodeEncryption; e.Used() {
		if n.certificates.nodes, err = n.openSource("server_encryption_options", &e.Encryption); err != nil {
			return err
		}
	}
	if e := &n.opts.ControlEncryption; e.Used() {
		n.certificates.control, err = n.openSource("control_encryption_options", e)
	}
	return err
}

// openSource opens the files of one option.
func (n *Node) openSource(name string, e *config.Encryption) (*tlsconfig.Source, error) {
	s, err := tlsconfig.Open(e.Files, tlsconfig.Options{Clock: n.clock, Logger: n.log, Name: name, Guard: n.guard})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// server returns the configuration of a port for clients, or nil without TLS.
func (c *certificates) server(p tlsconfig.Policy) *tls.Config {
	if c.clients == nil {
		return nil
	}
	return c.clients.Server(p)
}

func (c *certificates) close() {
	for _, s := range c.sources() {
		s.Close()
	}
}

// sources returns the open sources by the use of their files.
func (c *certificates) sources() map[string]*tlsconfig.Source {
	out := map[string]*tlsconfig.Source{}
	for use, source := range map[string]*tlsconfig.Source{"client": c.clients, "internode": c.nodes,
		"control": c.control} {
		if source != nil {
			out[use] = source
		}
	}
	return out
}

// opReloadSSL reads the certificate files. If one of them cannot be used, the previous ones of its use stay in use.
func (n *Node) opReloadSSL(context.Context, control.None, control.Report) (control.Certificates, error) {
	sources, list := n.certificates.sources(), []control.Certificate{}
	var errs []error
	for _, use := range slices.Sorted(maps.Keys(sources)) {
		s := sources[use]
		if err := s.Reload(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", use, err))
			continue
		}
		list = append(list, control.Certificate{Use: use, Expires: s.Expiry().UTC().Format(time.RFC3339)})
	}
	return control.Certificates{Certificates: list}, errors.Join(errs...)
}

// encryption collects certificates and TLS handshakes.
func (c figuresCollector) encryption(m metricSink) {
	for use, source := range c.n.certificates.sources() {
		s := source.Stats()
		labels, values := []string{"use"}, []string{use}
		m.send(prometheus.GaugeValue, "certificate_expiry_seconds",
			"Seconds until the certificate, or an authority above it, expires; negative after that.",
			s.Expiry.Sub(c.n.clock.Now()).Seconds(), labels, values)
		if !s.RevocationsDue.IsZero() {
			m.send(prometheus.GaugeValue, "certificate_revocations_due_seconds",
				"Seconds until a revocation list must be replaced; negative after that.",
				s.RevocationsDue.Sub(c.n.clock.Now()).Seconds(), labels, values)
		}
		m.send(prometheus.CounterValue, "certificate_reloads_total", "Changes of certificate files that are in use.",
			float64(s.Reloads), labels, values)
		m.send(prometheus.CounterValue, "certificate_reload_failures_total",
			"Changes of certificate files that cannot be used.", float64(s.Failures), labels, values)
	}
	c.internode(m)
	if s := c.n.server.Load(); s != nil && c.n.certificates.clients != nil {
		m.handshakes("cql", s.Encryption())
	}
	if s := c.n.tables.Load(); s != nil && c.n.certificates.clients != nil {
		m.handshakes("tables", s.Encryption())
	}
}

func (m metricSink) handshakes(protocol string, s tlsconfig.HandshakeStats) {
	m.send(prometheus.CounterValue, "tls_handshakes_total", "TLS handshakes of clients.",
		float64(s.Completed-s.Resumed),
		[]string{"protocol", "resumed"}, []string{protocol, "false"})
	m.send(prometheus.CounterValue, "tls_handshakes_total", "TLS handshakes of clients.", float64(s.Resumed),
		[]string{"protocol", "resumed"}, []string{protocol, "true"})
	for reason, count := range s.Failures {
		m.send(prometheus.CounterValue, "tls_handshake_failures_total", "TLS handshakes of clients that failed.",
			float64(count),
			[]string{"protocol", "reason"}, []string{protocol, string(reason)})
	}
}
