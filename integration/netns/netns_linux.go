package netns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"syscall"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// environment tells a process that it was started by Run.
const environment = "CQLD_NETNS"

// Inside tells whether this process was started by Run.
func Inside() bool { return os.Getenv(environment) == "1" }

// ErrNotPermitted says that namespaces cannot be made here.
var ErrNotPermitted = errors.New("netns: network namespaces are not permitted here")

// Run runs this program again, with other arguments, in a network namespace of its own, and returns what
// it printed.
func Run(ctx context.Context, args ...string) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), environment+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		err = ErrNotPermitted
	}
	return out, err
}

// LoopbackUp makes 127.0.0.0/8 work in a new namespace.
func LoopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("netns: %w", err)
	}
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("netns: %w", err)
	}
	if err := unix.IoctlIfreq(s, unix.SIOCGIFFLAGS, lo); err != nil {
		return fmt.Errorf("netns: %w", err)
	}
	lo.SetUint16(lo.Uint16() | unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("netns: %w", err)
	}
	return nil
}

// Firewall drops packets in this namespace.
type Firewall struct {
	conn  *nftables.Conn
	table *nftables.Table
	drops *nftables.Chain
}

// NewFirewall makes a firewall that lets everything through.
func NewFirewall() (*Firewall, error) {
	c, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("netns: %w", err)
	}
	f := &Firewall{conn: c, table: c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "cqld"})}
	// What arrives is dropped, and not what leaves: the sender must not be told.
	f.drops = c.AddChain(&nftables.Chain{Name: "drops", Table: f.table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter})
	return f, f.commit()
}

func (f *Firewall) commit() error {
	if err := f.conn.Flush(); err != nil {
		return fmt.Errorf("netns: nftables: %w", err)
	}
	return nil
}

// Drop loses every packet from one address to another; those the other way arrive.
func (f *Firewall) Drop(from, to netip.Addr) error {
	const source, destination = 12, 16 // offsets in an IPv4 header
	match := func(offset uint32, a netip.Addr) []expr.Any {
		b := a.As4()
		return []expr.Any{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: b[:]}}
	}
	rule := append(match(source, from), match(destination, to)...)
	f.conn.AddRule(&nftables.Rule{Table: f.table, Chain: f.drops, Exprs: append(rule, &expr.Verdict{Kind: expr.VerdictDrop})})
	return f.commit()
}

// Cut loses every packet between the addresses of one side and those of the other.
func (f *Firewall) Cut(one, other []netip.Addr) error {
	for _, a := range one {
		for _, b := range other {
			if err := errors.Join(f.Drop(a, b), f.Drop(b, a)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Heal lets everything through again.
func (f *Firewall) Heal() error {
	f.conn.FlushChain(f.drops)
	return f.commit()
}
