package admin

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"cqld/hints"
	"cqld/node/certificates"
	"cqld/node/config"
	"cqld/node/control"
)

// Settings shows and changes settings of the running node. It changes the running node; the configuration is applied
// again at the next start. Nothing is written to the configuration file: cqld never changes a file of the operator.
type Settings struct {
	options      *config.Options
	hints        *hints.Hints
	certificates *certificates.Set
	stop         func() // requests that the process stops
	log          *slog.Logger
}

// Stop has the process stop the node, as SIGTERM does. The answer comes first.
func (s *Settings) Stop(context.Context, control.None, control.Report) (control.None, error) {
	s.log.Info("stop requested by an operator")
	// The process closes the node in its own time.
	s.stop()
	return control.None{}, nil
}

// HandoffOf reports whether hints are stored. It is the state of the running process.
func (s *Settings) HandoffOf(context.Context, control.None, control.Report) (control.Switch, error) {
	return control.Switch{On: s.hints.Accepting()}, nil
}

// SetHandoff determines whether hints are stored. Hints that are stored already are still replayed.
func (s *Settings) SetHandoff(_ context.Context, a control.Switch, _ control.Report) (control.Switch, error) {
	s.hints.SetAccepting(a.On)
	return a, nil
}

// Timeouts shows the timeouts of requests. They come from the configuration, which do not change while the node
// runs.
func (s *Settings) Timeouts(context.Context, control.None, control.Report) (control.Timeouts, error) {
	t := &s.options.Timeouts
	return control.Timeouts{Timeouts: map[string]time.Duration{"read": t.Read, "range": t.Range, "write": t.Write,
		"counterwrite": t.Counter, "cascontention": t.CAS, "truncate": t.Truncate}}, nil
}

// LoggingLevel shows the level of the log. A logger of another program has no level that can be changed.
func (s *Settings) LoggingLevel(context.Context, control.None, control.Report) (control.Logging, error) {
	if s.options.LogLevel == nil {
		return control.Logging{}, control.NotSupported("a level of this logger")
	}
	return control.Logging{Level: s.options.LogLevel.Level().String()}, nil
}

// SetLoggingLevel changes the level of the log. The level is the configuration's again after a restart.
func (s *Settings) SetLoggingLevel(_ context.Context, a control.Logging, _ control.Report) (control.Logging, error) {
	if s.options.LogLevel == nil {
		return a, control.NotSupported("a level of this logger")
	}
	var level slog.Level
	// The level has the form of package slog, in any case.
	if err := level.UnmarshalText([]byte(a.Level)); err != nil {
		return a, &control.Error{Code: control.Invalid,
			Message: fmt.Sprintf("%q is not one of debug, info, warn, error", a.Level)}
	}
	s.options.LogLevel.Set(level)
	return control.Logging{Level: level.String()}, nil
}

// ReloadSSL reads the certificate files. If one of them cannot be used, the previous ones of its use stay in use. The
// certificates are also read when their files change.
func (s *Settings) ReloadSSL(context.Context, control.None, control.Report) (control.Certificates, error) {
	list := []control.Certificate{}
	reloaded, err := s.certificates.Reload()
	// Each use of certificates is reported, also if one of them failed.
	for _, c := range reloaded {
		list = append(list, control.Certificate{Use: c.Use, Expires: c.Expires.Format(time.RFC3339)})
	}
	return control.Certificates{Certificates: list}, err
}
