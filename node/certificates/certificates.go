package certificates

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"cqld/node/config"
	"cqld/tlsconfig"
)

// Set are the open certificate files of a node. The zero value has none. The fields are written by Open only; a reload
// changes the content of a source, and connections that are open keep the certificate of their handshake.
type Set struct {
	Clients *tlsconfig.Source // for CQL and Azure Tables clients; nil without TLS
	Nodes   *tlsconfig.Source // for connections with other nodes; nil without TLS
	Control *tlsconfig.Source // for control_address; nil without TLS
}

// Open reads the certificate files that the options name. A node with files that cannot be used does not start. If Open
// fails, the caller closes what the set contains. How the sources are named in o is determined by Open. Errors begin
// with the section of cassandra.yaml, for example client_encryption_options.
func (s *Set) Open(options *config.Options, o tlsconfig.Options) error {
	for _, use := range []struct {
		to   **tlsconfig.Source
		name string
		from *config.Encryption
		used bool
	}{
		{&s.Clients, "client_encryption_options", &options.Encryption.Clients, options.Encryption.Clients.Used()},
		{&s.Nodes, "server_encryption_options", &options.Encryption.Internode.Encryption,
			options.Encryption.Internode.Used()},
		{&s.Control, "control_encryption_options", &options.Encryption.Control, options.Encryption.Control.Used()},
	} {
		if !use.used {
			continue
		}
		o.Name = use.name
		source, err := tlsconfig.Open(use.from.Files, o)
		if err != nil {
			return fmt.Errorf("%s: %w", use.name, err)
		}
		*use.to = source
	}
	return nil
}

// Server returns the configuration of a port for clients, or nil without TLS. CQL and Azure Tables share the files and
// differ in the policy. The result is read again for each handshake, so it need not be made again after a reload.
func (s *Set) Server(p tlsconfig.Policy) *tls.Config {
	if s.Clients == nil {
		return nil
	}
	return s.Clients.Server(p)
}

// Close closes all sources. Connections that are open continue.
func (s *Set) Close() {
	for _, source := range s.Sources() {
		source.Close()
	}
}

// Sources returns the open sources by the use of their files. The keys are client, internode and control, which are
// labels of metrics.
func (s *Set) Sources() map[string]*tlsconfig.Source {
	out := map[string]*tlsconfig.Source{}
	for use, source := range map[string]*tlsconfig.Source{"client": s.Clients, "internode": s.Nodes,
		"control": s.Control} {
		if source != nil {
			out[use] = source
		}
	}
	return out
}

// Reloaded is a source that was read again. Use is a key of Sources, and Expires the end of the certificate's validity.
type Reloaded struct {
	Use     string
	Expires time.Time
}

// Reload reads the certificate files. If one of them cannot be used, the previous ones of its use stay in use.
func (s *Set) Reload() (list []Reloaded, err error) {
	// In alphabetical order, so that the answer to an operator does not depend on the order of a map.
	sources := s.Sources()
	var errs []error
	for _, use := range slices.Sorted(maps.Keys(sources)) {
		source := sources[use]
		if err := source.Reload(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", use, err))
			continue
		}
		list = append(list, Reloaded{use, source.Expiry().UTC()})
	}
	return list, errors.Join(errs...)
}

// revocationsEvery is how often WatchRevocations checks whether revocation lists were read again. A connection of a
// revoked certificate lives at most this much longer than the time that the source needs to notice the new list.
const revocationsEvery = time.Second

// WatchRevocations calls revoked after each change of the certificate files of the nodes, which exist, until stopping
// is closed. It blocks, and runs in a goroutine of the node. A reload counts, whatever it changed: comparing all
// connections with the lists is cheap enough.
func (s *Set) WatchRevocations(stopping <-chan struct{}, revoked func()) {
	seen := s.Nodes.Stats().Reloads
	for {
		timer := time.NewTimer(revocationsEvery)
		select {
		case <-stopping:
			timer.Stop()
			return
		case <-timer.C:
		}
		if reloads := s.Nodes.Stats().Reloads; reloads != seen {
			seen = reloads
			revoked()
		}
	}
}
