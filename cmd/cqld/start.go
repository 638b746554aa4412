package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	_ "net/http/pprof" // served only with --pprof
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"cqld/internal/loglimit"
	"cqld/internal/memory"
	"cqld/node"
	"cqld/node/config"
	"cqld/node/control"
)

// startCommand is `cqld start`. Its flags override the configuration file and the environment. Flags that exist in the
// file are pointers, nil if not given, so that a flag's default never overrides the file. In order of increasing
// precedence:
//
//	config.Default ─▶ --config ─▶ CQLD_ variables ─▶ flags ─▶ ApplyDevelopment (fills in only what is unset)
type startCommand struct {
	Config      string `help:"File as cassandra.yaml; CQLD_ variables and flags override it." type:"path" placeholder:"FILE" env:"CQLD_CONFIG"`
	Development bool   `help:"Serve clients of all addresses without login and encryption. For development only."`

	ClusterName           *string  `help:"Name of the cluster. Nodes with another cluster name are refused."`
	DataDir               *string  `help:"Data directory." type:"path" env:"CQLD_DATA_DIR"`
	ListenAddress         *string  `help:"Address for internode connections, or a host name of this machine."`
	StoragePort           *uint16  `help:"Port for internode connections."`
	RPCAddress            *string  `name:"rpc-address" help:"Address for CQL clients, or a host name of this machine."`
	NativeTransportPort   *uint16  `help:"Port for CQL clients."`
	TablesPort            *uint16  `help:"Port for Azure Tables clients; 0 disables it."`
	Seeds                 []string `help:"Nodes to contact when joining, HOST or HOST:PORT. The first seed creates the cluster."`
	Replace               *string  `help:"On the first start, replace this dead node: ADDRESS or host ID." placeholder:"NODE"`
	NumTokens             *int     `help:"Number of tokens (virtual nodes) of this node."`
	Datacenter            *string  `help:"Data center of this node."`
	Rack                  *string  `help:"Rack of this node."`
	MemoryLimit           *string  `help:"Memory of the node, such as 2GiB: the least of this, the limits of its cgroups and the memory of the machine is divided among its parts." placeholder:"SIZE"`
	CommitlogSync         *string  `help:"batch: sync writes to disk before acknowledging them. periodic: sync periodically."`
	ControlAddress        *string  `help:"Loopback address and port of an additional control listener, besides the socket in the data directory." placeholder:"ADDRESS:PORT"`
	HealthAddress         *string  `help:"Address and port that answers probes, GET /livez and GET /readyz." placeholder:"ADDRESS:PORT"`
	Superuser             *string  `help:"Name of the first superuser of a new cluster with authentication." placeholder:"NAME" env:"CQLD_SUPERUSER"`
	SuperuserPasswordFile string   `help:"File with the password of the first superuser, which other users must not be able to read. The environment variable CQLD_SUPERUSER_PASSWORD is an alternative. Without either, the node generates a password." type:"path" placeholder:"FILE" env:"CQLD_SUPERUSER_PASSWORD_FILE"`
	LogLevel              string   `help:"debug, info, warn or error." default:"info" enum:"debug,info,warn,error" env:"CQLD_LOG_LEVEL"`
	LogFormat             string   `help:"text or json." default:"text" enum:"text,json" env:"CQLD_LOG_FORMAT"`
	Pprof                 string   `help:"Serve Go profiles (pprof) on this loopback address, 127.0.0.1:PORT." placeholder:"ADDRESS"`
	// The following flags are for tests and for `cqld local`, which starts its nodes with them.
	ClockOffset time.Duration `hidden:"" help:"Shift this node's clock. Requires --unsafe."`
	Unsafe      bool          `hidden:"" help:"Allow options that are for tests only."`
	// With StopWithStdin, the node stops when its parent process ends, even if that was killed.
	StopWithStdin bool `hidden:"" help:"Stop when the standard input ends."`
	StatusFD      int  `name:"status-fd" hidden:"" help:"Write status changes to this file descriptor."`
}

// leftLinger is how long the process of a decommissioned node keeps running, so that the operator can query the result.
// It delays only the end of the process: clients are refused from the departure on.
const leftLinger = 5 * time.Second

// drainTimeout limits how long a node waits for requests in progress when it stops. A supervisor must wait longer
// before it kills the process; systemd waits 90 s by default.
const drainTimeout = 10 * time.Second

// Run runs a node until ctx ends, the node fails or it leaves the cluster. On return, the node has drained or failed
// to. Errors before node.Open leave the data directory untouched. It sets up options, checks, memory, profiles and the
// node, and ends them in reverse order.
func (c *startCommand) Run(ctx context.Context) error {
	opts, err := c.options()
	if err != nil {
		return err
	}
	// Host names are resolved once, here, because options must be parsed without network access.
	if err := opts.ResolveNames(ctx); err != nil {
		return err
	}
	if err := opts.Validate(); err != nil {
		return err
	}
	if err := checkNodeDirectory(opts.DataDir); err != nil {
		return err
	}
	// Memory is divided before the node opens its files, because it determines the sizes of caches and queues.
	if err := opts.DivideMemory(memory.Local()); err != nil {
		return err
	}
	// Deferred calls run after the node is closed, so its last log messages are included.
	defer flushLog(opts.Logger)
	defer c.tuneMemory(&opts.Memory.Division)()
	// Started first, so profiles are available while the node replays its logs.
	stopProfiles, err := c.serveProfiles()
	if err != nil {
		return err
	}
	defer stopProfiles()
	n, err := node.Open(ctx, opts)
	if err != nil {
		return err
	}
	status := c.statusWriter()
	defer status.Close()
	// The parent process holds the other end of the pipe, and never writes to it.
	if c.StopWithStdin {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		go func() { // ends with the process
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	reports := statusReports{out: status, line: func() string { return n.Status().Line() }}
	n.OnStatus(reports.write) // which also writes the first one
	failed := await(ctx, n, opts.Logger, func() {
		opts.Logger.Info("ready for clients", "address", opts.Native(), "tables", opts.TablesListener())
		// `cqld local` and collectors of JSON logs expect no prose.
		if c.StatusFD == 0 && c.LogFormat == "text" {
			greetNode(os.Stdout, &opts)
		}
	})
	// The supervisor is notified before the drain, which may take as long as drainTimeout.
	notify(stateStopping, opts.Logger)
	// ctx has ended, so the drain needs a new context.
	drain, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	return errors.Join(failed, n.Close(drain))
}

// await calls greet when the node serves clients, and returns when the node must stop, with the error if it failed. It
// returns nil if ctx ended, the control socket requested a stop, or the node left the cluster. It runs in the goroutine
// of Run, so greet needs no lock.
func await(ctx context.Context, n *node.Node, log *slog.Logger, greet func()) (failed error) {
	// Served is closed once the node accepts clients; a nil channel is never ready, so greet runs at most once.
	served := n.Served()
	for {
		select {
		case <-served:
			notify(stateReady, log)
			greet()
			served = nil
		case <-ctx.Done():
			log.Info("draining")
			return nil
		case <-n.StopRequested():
			log.Info("draining")
			return nil
		case failed = <-n.Failed():
			// The caller still closes the node as far as possible.
			log.Error("stopping", "err", failed)
			return failed
		// The node still serves its control socket, so `ctl decommission` gets its result.
		case <-n.Retired():
			log.Info("node has left the cluster; exiting")
			select {
			case <-ctx.Done():
			case <-time.After(leftLinger):
			}
			return nil
		}
	}
}

// tuneMemory sets the collector's pace unless GOGC is set, and its limit unless GOMEMLIMIT is, and turns off memory
// profiling without --pprof: sampling an allocation every 512 KiB took a fortieth of the CPU time of large batches.
// stop ends the pacing. These environment variables are the Go runtime's, which has already read them; they take
// precedence.
func (c *startCommand) tuneMemory(d *memory.Division) (stop func()) {
	// The runtime expects the rate to be set once, and early.
	if c.Pprof == "" {
		runtime.MemProfileRate = 0
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(d.HeapLimit())
	}
	// The pacer changes the same setting as GOGC, so only one of them may set it.
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	p := memory.NewPacer(d)
	p.Start()
	return p.Close
}

// superuserVariable is the environment variable with the password of the first superuser.
const superuserVariable = "CQLD_SUPERUSER_PASSWORD"

// superuser sets the first superuser. It has an effect only on a new cluster with authentication. The password has no
// flag, because arguments are visible to other users of the machine. ReadPasswordFile refuses a file that other users
// can read.
func (c *startCommand) superuser(o *config.Access) error {
	setIf(&o.Superuser, c.Superuser)
	// The variable is removed even if the password is not used.
	o.SuperuserPassword = os.Getenv(superuserVariable)
	if err := os.Unsetenv(superuserVariable); err != nil { // nothing that this process starts inherits it
		return err
	}
	if c.SuperuserPasswordFile == "" {
		return nil
	}
	// Two sources could contain different passwords.
	if o.SuperuserPassword != "" {
		return errors.New("--superuser-password-file and " + superuserVariable + " exclude each other")
	}
	var err error
	if o.SuperuserPassword, err = control.ReadPasswordFile(c.SuperuserPasswordFile); err != nil {
		return fmt.Errorf("--superuser-password-file: %w", err)
	}
	return nil
}

// options returns the defaults, overridden by the file, then by the environment and then by the flags. It does no
// network I/O; names are resolved later. o.Logger is set last, with a level that an operator can change. It may be
// called once, because it removes the password from the environment.
func (c *startCommand) options() (config.Options, error) {
	o := config.Default()
	if c.Config != "" {
		if err := o.LoadFile(c.Config); err != nil {
			return o, err
		}
	}
	// As documented in the help of --config, variables override the file.
	if err := o.LoadEnvironment(os.Environ()); err != nil {
		return o, err
	}
	o.DevelopmentMode = o.DevelopmentMode || c.Development
	setIf(&o.ClusterName, c.ClusterName)
	setIf(&o.DataDir, c.DataDir)
	setIf(&o.Listen.StoragePort, c.StoragePort)
	setIf(&o.Listen.NativePort, c.NativeTransportPort)
	setIf(&o.Tables.Port, c.TablesPort)
	setIf(&o.Join.NumTokens, c.NumTokens)
	setIf(&o.Datacenter, c.Datacenter)
	setIf(&o.Rack, c.Rack)
	setIf(&o.Join.Replace, c.Replace)
	if err := c.superuser(&o.Access); err != nil {
		return o, err
	}
	// Text is converted by the same function as in the file.
	if c.MemoryLimit != nil {
		if err := o.SetMemoryLimit(*c.MemoryLimit); err != nil {
			return o, fmt.Errorf("--memory-limit: %w", err)
		}
	}
	o.ClockOffset, o.Unsafe = c.ClockOffset, c.Unsafe
	if c.CommitlogSync != nil {
		o.CommitLog.Sync = config.CommitLogSync(*c.CommitlogSync)
	}
	// A value may be a host name, so the setters distinguish the two.
	for flag, f := range map[string]struct {
		value *string
		set   func(string) error
	}{"--listen-address": {c.ListenAddress, o.SetListenAddress}, "--rpc-address": {c.RPCAddress, o.SetRPCAddress}} {
		if f.value == nil {
			continue
		}
		if err := f.set(*f.value); err != nil {
			return o, fmt.Errorf("%s: %w", flag, err)
		}
	}
	// These must be literal addresses with a port.
	for flag, f := range map[string]struct {
		value *string
		field *netip.AddrPort
	}{"--control-address": {c.ControlAddress, &o.Listen.ControlAddress},
		"--health-address": {c.HealthAddress, &o.Listen.HealthAddress}} {
		if f.value == nil {
			continue
		}
		a, err := config.ParseAddressPort(*f.value)
		if err != nil {
			return o, fmt.Errorf("%s: %w", flag, err)
		}
		*f.field = a
	}
	if c.Seeds != nil {
		if err := o.SetSeeds(c.Seeds); err != nil {
			return o, fmt.Errorf("--seeds: %w", err)
		}
	}
	// Development mode fills in what nothing else has set, so it is applied after the flags.
	o.ApplyDevelopment()
	o.LogLevel = new(slog.LevelVar)
	o.Logger = c.logger(o.LogLevel)
	return o, nil
}

// setIf sets the field to the flag's value if the flag was given. A flag with the zero value, such as --tables-port=0,
// therefore counts.
func setIf[T any](field *T, flag *T) {
	if flag != nil {
		*field = *flag
	}
}

// logger returns a logger for level and above; level may change later. Repeated messages are limited, so that a failure
// that repeats cannot fill the disk. The log goes to the standard error output, because the standard output may carry
// the status (--status-fd).
func (c *startCommand) logger(level *slog.LevelVar) *slog.Logger {
	_ = level.UnmarshalText([]byte(c.LogLevel)) // kong has validated it
	opts := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(os.Stderr, opts)
	if c.LogFormat == "json" {
		handler = slog.NewJSONHandler(os.Stderr, opts)
	}
	return slog.New(loglimit.New(handler, time.Now))
}

// flushLog reports log messages that were counted but not yet reported. A test's logger has another handler, and
// nothing to report.
func flushLog(log *slog.Logger) {
	if limited, ok := log.Handler().(*loglimit.Handler); ok {
		_ = limited.Close() // nothing can be done about a log that cannot be written
	}
}

// statusReports writes status lines. The node calls write from several goroutines. line is called under the lock, so a
// line is never older than the line before it: `cqld local` waits for the last line to show agreement.
type statusReports struct {
	mu   sync.Mutex
	out  io.Writer
	line func() string
}

// write writes the current status. Errors are ignored: a reader that has ended needs no status.
func (r *statusReports) write() {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintln(r.out, r.line())
}

// nopCloser is a writer whose Close has no effect.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// statusWriter returns where status lines are written: --status-fd, or nowhere. `cqld local` passes the standard
// output. Each line is one change of the status, in the form of Status.Line, which readers must parse.
func (c *startCommand) statusWriter() io.WriteCloser {
	if c.StatusFD == 0 {
		return nopCloser{io.Discard}
	}
	return os.NewFile(uintptr(c.StatusFD), "status")
}

// serveProfiles serves net/http/pprof if --pprof is set; stop ends the server. It returns an error unless the address
// is a loopback address: profiles reveal statements and memory contents, and have no authentication. A port that is in
// use is reported on standard error, and does not stop the node. It serves the default mux, to which net/http/pprof
// adds its handlers.
func (c *startCommand) serveProfiles() (stop func(), err error) {
	if c.Pprof == "" {
		return func() {}, nil
	}
	// A host name is refused: it could resolve to another address.
	a, err := netip.ParseAddrPort(c.Pprof)
	if err != nil || !a.Addr().IsLoopback() {
		return nil, fmt.Errorf("--pprof: %q is not a loopback address such as 127.0.0.1:6060", c.Pprof)
	}
	srv := &http.Server{Addr: c.Pprof, Handler: loopbackOnly(http.DefaultServeMux), ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	// It ends when stop closes the server.
	go func() {
		defer close(done)
		if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "cqld: profiles: "+err.Error())
		}
	}()
	return func() { srv.Close(); <-done }, nil
}

// loopbackOnly refuses requests whose Host is neither a loopback address nor localhost: with DNS rebinding, a web page
// could make a browser send such requests.
func loopbackOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The header may have no port. IPv6 addresses have brackets.
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		a, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if !strings.EqualFold(host, "localhost") && (err != nil || !a.IsLoopback()) {
			http.Error(w, "the Host header must be a loopback address or localhost", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
