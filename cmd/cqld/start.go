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
	"time"

	"cqld/internal/loglimit"
	"cqld/internal/memory"
	"cqld/node"
	"cqld/node/config"
	"cqld/node/control"
)

type startCommand struct {
	Config      string `help:"File as cassandra.yaml; CQLD_ variables and flags override it." type:"path" placeholder:"FILE" env:"CQLD_CONFIG"`
	Development bool   `help:"Serve clients of all addresses without login and encryption. For development only."`

	ClusterName           *string       `help:"Name of the cluster. Nodes with another cluster name are refused."`
	DataDir               *string       `help:"Data directory." type:"path" env:"CQLD_DATA_DIR"`
	ListenAddress         *string       `help:"Address for internode connections, or a host name of this machine."`
	StoragePort           *uint16       `help:"Port for internode connections."`
	RPCAddress            *string       `name:"rpc-address" help:"Address for CQL clients, or a host name of this machine."`
	NativeTransportPort   *uint16       `help:"Port for CQL clients."`
	TablesPort            *uint16       `help:"Port for Azure Tables clients; 0 disables it."`
	Seeds                 []string      `help:"Nodes to contact when joining, HOST or HOST:PORT. The first seed creates the cluster."`
	Replace               *string       `help:"On the first start, replace this dead node: ADDRESS or host ID." placeholder:"NODE"`
	NumTokens             *int          `help:"Number of tokens (virtual nodes) of this node."`
	Datacenter            *string       `help:"Data center of this node."`
	Rack                  *string       `help:"Rack of this node."`
	MemoryLimit           *string       `help:"Memory of the node, such as 2GiB: the least of this, the limits of its cgroups and the memory of the machine is divided among its parts." placeholder:"SIZE"`
	CommitlogSync         *string       `help:"batch: sync writes to disk before acknowledging them. periodic: sync periodically."`
	ControlAddress        *string       `help:"Loopback address and port of an additional control listener, besides the socket in the data directory." placeholder:"ADDRESS:PORT"`
	HealthAddress         *string       `help:"Address and port that answers probes, GET /livez and GET /readyz." placeholder:"ADDRESS:PORT"`
	Superuser             *string       `help:"Name of the first superuser of a new cluster with authentication." placeholder:"NAME" env:"CQLD_SUPERUSER"`
	SuperuserPasswordFile string        `help:"File with the password of the first superuser, which other users must not be able to read. The environment variable CQLD_SUPERUSER_PASSWORD is an alternative. Without either, the node generates a password." type:"path" placeholder:"FILE" env:"CQLD_SUPERUSER_PASSWORD_FILE"`
	LogLevel              string        `help:"debug, info, warn or error." default:"info" enum:"debug,info,warn,error" env:"CQLD_LOG_LEVEL"`
	LogFormat             string        `help:"text or json." default:"text" enum:"text,json" env:"CQLD_LOG_FORMAT"`
	Pprof                 string        `help:"Serve Go profiles (pprof) on this loopback address, 127.0.0.1:PORT." placeholder:"ADDRESS"`
	ClockOffset           time.Duration `hidden:"" help:"Shift this node's clock. Requires --unsafe."`
	Unsafe                bool          `hidden:"" help:"Allow options that are for tests only."`
	StopWithStdin         bool          `hidden:"" help:"Stop when the standard input ends."`
	StatusFD              int           `name:"status-fd" hidden:"" help:"Write status changes to this file descriptor."`
}

// leftLinger is how long the process of a decommissioned node keeps running, so that the operator can query the result.
const leftLinger = 5 * time.Second

// drainTimeout limits how long a node waits for requests in progress when it stops.
const drainTimeout = 10 * time.Second

// Run runs a node until ctx ends, the node fails or it leaves the cluster.
func (c *startCommand) Run(ctx context.Context) error {
	opts, err := c.options()
	if err != nil {
		return err
	}
	if err := opts.ResolveNames(ctx); err != nil {
		return err
	}
	if err := opts.Validate(); err != nil {
		return err
	}
	if err := checkNodeDirectory(opts.DataDir); err != nil {
		return err
	}
	if err := opts.DivideMemory(memory.Local()); err != nil {
		return err
	}
	defer flushLog(opts.Logger)
	defer c.tuneMemory(&opts.Memory.Division)()
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
	if c.StopWithStdin {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		go func() { // ends with the process
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	report := func() { fmt.Fprintln(status, n.Status().Line()) }
	report()
	n.OnStatus(report)
	if n.Joined() {
		opts.Logger.Info("ready for clients", "address", opts.Native(), "tables", opts.TablesListener())
	}
	failed := await(ctx, n, opts.Logger, func() {
		if c.StatusFD == 0 && c.LogFormat == "text" {
			greetNode(os.Stdout, &opts)
		}
	})
	notify(stateStopping, opts.Logger)
	drain, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	return errors.Join(failed, n.Close(drain))
}

// await calls greet when the node serves clients, and returns when the node must stop, with the error if it has failed.
func await(ctx context.Context, n *node.Node, log *slog.Logger, greet func()) (failed error) {
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
			log.Error("stopping", "err", failed)
			return failed
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
// stop ends the pacing.
func (c *startCommand) tuneMemory(d *memory.Division) (stop func()) {
	if c.Pprof == "" {
		runtime.MemProfileRate = 0
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(d.HeapLimit())
	}
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	p := memory.NewPacer(d)
	p.Start()
	return p.Close
}

// superuserVariable is the environment variable with the password of the first superuser.
const superuserVariable = "CQLD_SUPERUSER_PASSWORD"

// superuser sets the first superuser.
func (c *startCommand) superuser(o *config.Access) error {
	setIf(&o.Superuser, c.Superuser)
	o.SuperuserPassword = os.Getenv(superuserVariable)
	if err := os.Unsetenv(superuserVariable); err != nil { // nothing that this process starts inherits it
		return err
	}
	if c.SuperuserPasswordFile == "" {
		return nil
	}
	if o.SuperuserPassword != "" {
		return errors.New("--superuser-password-file and " + superuserVariable + " exclude each other")
	}
	var err error
	if o.SuperuserPassword, err = control.ReadPasswordFile(c.SuperuserPasswordFile); err != nil {
		return fmt.Errorf("--superuser-password-file: %w", err)
	}
	return nil
}

// options returns the defaults, overridden by the file, then by the environment and then by the flags.
func (c *startCommand) options() (config.Options, error) {
	o := config.Default()
	if c.Config != "" {
		if err := o.LoadFile(c.Config); err != nil {
			return o, err
		}
	}
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
	if c.MemoryLimit != nil {
		if err := o.SetMemoryLimit(*c.MemoryLimit); err != nil {
			return o, fmt.Errorf("--memory-limit: %w", err)
		}
	}
	o.ClockOffset, o.Unsafe = c.ClockOffset, c.Unsafe
	if c.CommitlogSync != nil {
		o.CommitLog.Sync = config.CommitLogSync(*c.CommitlogSync)
	}
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
	o.ApplyDevelopment()
	o.LogLevel = new(slog.LevelVar)
	o.Logger = c.logger(o.LogLevel)
	return o, nil
}

func setIf[T any](field *T, flag *T) {
	if flag != nil {
		*field = *flag
	}
}

// logger returns a logger for level and above; level may change later.
func (c *startCommand) logger(level *slog.LevelVar) *slog.Logger {
	_ = level.UnmarshalText([]byte(c.LogLevel)) // kong has validated it
	opts := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(os.Stderr, opts)
	if c.LogFormat == "json" {
		handler = slog.NewJSONHandler(os.Stderr, opts)
	}
	return slog.New(loglimit.New(handler, time.Now))
}

// flushLog reports messages of the log that are counted and not reported yet.
func flushLog(log *slog.Logger) {
	if limited, ok := log.Handler().(*loglimit.Handler); ok {
		_ = limited.Close() // nothing can be done about a log that cannot be written
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func (c *startCommand) statusWriter() io.WriteCloser {
	if c.StatusFD == 0 {
		return nopCloser{io.Discard}
	}
	return os.NewFile(uintptr(c.StatusFD), "status")
}

// serveProfiles serves net/http/pprof if --pprof is set; stop ends the server.
func (c *startCommand) serveProfiles() (stop func(), err error) {
	if c.Pprof == "" {
		return func() {}, nil
	}
	a, err := netip.ParseAddrPort(c.Pprof)
	if err != nil || !a.Addr().IsLoopback() {
		return nil, fmt.Errorf("--pprof: %q is not a loopback address such as 127.0.0.1:6060", c.Pprof)
	}
	srv := &http.Server{Addr: c.Pprof, Handler: loopbackOnly(http.DefaultServeMux), ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "cqld: profiles: "+err.Error())
		}
	}()
	return func() { srv.Close(); <-done }, nil
}

// loopbackOnly refuses requests whose Host is not a loopback address or localhost: a web page whose name resolves to a
// loopback address (DNS rebinding) has the browser of its reader send such requests.
func loopbackOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
