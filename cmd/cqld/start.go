package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	_ "net/http/pprof" // served only where --pprof says
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"cqld/node"
)

type startCommand struct {
	Config string `help:"YAML file with the options, under cassandra.yaml's names; flags win over it." type:"path" placeholder:"FILE"`

	ClusterName         *string       `help:"Nodes of another name are refused."`
	DataDir             *string       `help:"Where the data is kept." type:"path"`
	ListenAddress       *string       `help:"Address for the other nodes."`
	StoragePort         *uint16       `help:"Port for the other nodes."`
	RPCAddress          *string       `name:"rpc-address" help:"Address for CQL clients."`
	NativeTransportPort *uint16       `help:"Port for CQL clients."`
	TablesPort          *uint16       `help:"Port for clients of Azure Tables; 0: none."`
	Seeds               []string      `help:"Nodes to ask for admission, ADDRESS or ADDRESS:PORT; the first founds the cluster."`
	Replace             *string       `help:"On first start: take the place of this dead node, ADDRESS or host id." placeholder:"NODE"`
	NumTokens           *int          `help:"Virtual nodes of this node."`
	Datacenter          *string       `help:"Data center of this node."`
	Rack                *string       `help:"Rack of this node."`
	CommitlogSync       *string       `help:"batch: a write is on disk when it is acknowledged. periodic: soon after."`
	ControlAddress      *string       `help:"Loopback address and port of the control port, besides its socket in the data directory." placeholder:"ADDRESS:PORT"`
	LogLevel            string        `help:"debug, info, warn or error." default:"info" enum:"debug,info,warn,error"`
	LogFormat           string        `help:"text or json." default:"text" enum:"text,json"`
	Pprof               string        `help:"Serve Go's profiles on this loopback address, 127.0.0.1:PORT." placeholder:"ADDRESS"`
	ClockOffset         time.Duration `hidden:"" help:"Make this node's clock wrong by so much; with --unsafe only."`
	Unsafe              bool          `hidden:"" help:"Allow what only tests may do."`
	StatusFD            int           `name:"status-fd" hidden:"" help:"Write state changes to this file descriptor."`
}

// leftLinger is how long a node that has left stays: who made it leave asks what became of it.
const leftLinger = 5 * time.Second

// drainTimeout bounds how long a node waits for requests in flight when it is told to stop.
const drainTimeout = 10 * time.Second

// Run runs a node until it is told to stop.
func (c *startCommand) Run(ctx context.Context) error {
	opts, err := c.options()
	if err != nil {
		return err
	}
	if err := opts.Validate(); err != nil {
		return err
	}
	if err := checkNodeDirectory(opts.DataDir); err != nil {
		return err
	}
	c.tuneMemory()
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
	report := func() { fmt.Fprintln(status, n.Status().Line()) }
	report()
	n.OnStatus(report)
	if n.Joined() {
		opts.Logger.Info("ready for clients", "address", opts.Native(), "tables", opts.Tables())
	}
	var failed error
	select {
	case <-ctx.Done():
		opts.Logger.Info("draining")
	case failed = <-n.Failed():
		opts.Logger.Error("stopping", "err", failed)
	case <-n.Retired():
		opts.Logger.Info("this node has left the cluster, and the process ends")
		select {
		case <-ctx.Done():
		case <-time.After(leftLinger):
		}
	}
	drain, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	return errors.Join(failed, n.Close(drain))
}

// gcPercent lets the heap grow to several times what lives in it before it is collected. Little lives
// there (the block cache and memtables are outside), so at Go's default of 100 a loaded node collects
// all the time: a fifth of a slice read's CPU went into write barriers.
const gcPercent = 400

// tuneMemory sets the collector's pace, unless GOGC does, and has allocations counted only where somebody can
// ask for them: looking who makes every 512 KiB was a fortieth of the CPU time of large batches.
func (c *startCommand) tuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if c.Pprof == "" {
		runtime.MemProfileRate = 0
	}
}

// options are the defaults, then the file, then the flags.
func (c *startCommand) options() (node.Options, error) {
	o := node.DefaultOptions()
	if c.Config != "" {
		if err := o.LoadFile(c.Config); err != nil {
			return o, err
		}
	}
	setIf(&o.ClusterName, c.ClusterName)
	setIf(&o.DataDir, c.DataDir)
	setIf(&o.StoragePort, c.StoragePort)
	setIf(&o.NativeTransportPort, c.NativeTransportPort)
	setIf(&o.TablesPort, c.TablesPort)
	setIf(&o.NumTokens, c.NumTokens)
	setIf(&o.Datacenter, c.Datacenter)
	setIf(&o.Rack, c.Rack)
	setIf(&o.Replace, c.Replace)
	o.ClockOffset, o.Unsafe = c.ClockOffset, c.Unsafe
	if c.CommitlogSync != nil {
		o.CommitLogSync = node.CommitLogSync(*c.CommitlogSync)
	}
	for flag, f := range map[string]struct {
		value *string
		field *netip.Addr
	}{"--listen-address": {c.ListenAddress, &o.ListenAddress}, "--rpc-address": {c.RPCAddress, &o.RPCAddress}} {
		if f.value == nil {
			continue
		}
		a, err := node.ParseAddress(*f.value)
		if err != nil {
			return o, fmt.Errorf("%s: %w", flag, err)
		}
		*f.field = a
	}
	if c.ControlAddress != nil {
		a, err := node.ParseAddressPort(*c.ControlAddress)
		if err != nil {
			return o, fmt.Errorf("--control-address: %w", err)
		}
		o.ControlAddress = a
	}
	if c.Seeds != nil {
		seeds, err := node.ParseSeeds(c.Seeds, o.StoragePort)
		if err != nil {
			return o, fmt.Errorf("--seeds: %w", err)
		}
		o.Seeds = seeds
	}
	o.LogLevel = new(slog.LevelVar)
	o.Logger = c.logger(o.LogLevel)
	return o, nil
}

func setIf[T any](field *T, flag *T) {
	if flag != nil {
		*field = *flag
	}
}

// logger logs what is at the level or above, which may change later.
func (c *startCommand) logger(level *slog.LevelVar) *slog.Logger {
	_ = level.UnmarshalText([]byte(c.LogLevel)) // kong has checked it
	opts := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, opts))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, opts))
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func (c *startCommand) statusWriter() io.WriteCloser {
	if c.StatusFD == 0 {
		return nopCloser{io.Discard}
	}
	return os.NewFile(uintptr(c.StatusFD), "status")
}

// serveProfiles serves net/http/pprof when asked to; the result stops it.
func (c *startCommand) serveProfiles() (stop func(), err error) {
	if c.Pprof == "" {
		return func() {}, nil
	}
	a, err := netip.ParseAddrPort(c.Pprof)
	if err != nil || !a.Addr().IsLoopback() {
		return nil, fmt.Errorf("--pprof: %q is not a loopback address such as 127.0.0.1:6060", c.Pprof)
	}
	srv := &http.Server{Addr: c.Pprof, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "cqld: profiles: "+err.Error())
		}
	}()
	return func() { srv.Close(); <-done }, nil
}
