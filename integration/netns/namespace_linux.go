package netns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// It names the namespace of the calling thread, unlike /proc/self, which names the main thread's.
	threadNamespace = "/proc/thread-self/ns/net"
	// The bridge's name; one bridge is enough for a test.
	bridge = "br0"
	// device is the name of the network device in each namespace of a Bridge.
	device = "eth0"
)

// Bridge is an Ethernet bridge in this namespace, with an address, to which other namespaces are connected. It connects
// like a switch: a namespace reaches all others unless a firewall drops the packets.
type Bridge struct {
	// With the address bits cleared, for the prefix length of the ports.
	network netip.Prefix
	ports   int
}

// Namespace is a network namespace with an address on a bridge. A server with this namespace binds Address on every
// port it likes; ports do not collide between namespaces.
type Namespace struct {
	Address netip.Addr
	file    *os.File
}

// NewBridge makes a bridge in this namespace, which must be one of Run. address belongs to this namespace on the
// bridge. The prefix must contain the addresses that Connect gets.
func NewBridge(ctx context.Context, address netip.Prefix) (*Bridge, error) {
	err := ip(ctx, nil, "link add "+bridge+" type bridge", fmt.Sprintf("addr add %s dev %s", address, bridge),
		"link set "+bridge+" up", "link set lo up")
	return &Bridge{network: address.Masked()}, err
}

// Connect makes a namespace with an address on the bridge. The caller closes it. The pair of virtual devices ends with
// the namespace, so there is no Disconnect.
func (b *Bridge) Connect(ctx context.Context, address netip.Addr) (*Namespace, error) {
	n, err := newNamespace(address)
	if err != nil {
		return nil, err
	}
	b.ports++
	port := "veth" + strconv.Itoa(b.ports)
	// Descriptor 3 is the file of the namespace.
	err = ip(ctx, n.file, fmt.Sprintf("link add %s type veth peer name %s netns /proc/self/fd/3", port, device),
		fmt.Sprintf("link set %s master %s", port, bridge), "link set "+port+" up")
	if err == nil {
		err = n.Do(func() error {
			return ip(ctx, nil, fmt.Sprintf("addr add %s/%d dev %s", address, b.network.Bits(), device),
				"link set "+device+" up", "link set lo up")
		})
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// newNamespace makes a namespace, which exists until its file is closed and its last process has ended. The thread that
// makes it returns to its own namespace at once.
func newNamespace(address netip.Addr) (*Namespace, error) {
	n := &Namespace{Address: address}
	return n, onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		var err error
		n.file, err = os.Open(threadNamespace)
		return err
	})
}

// Do calls a function on a thread in the namespace. Processes that it starts are in the namespace. f must not start
// goroutines that use the network: they would run on other threads, in another namespace.
func (n *Namespace) Do(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return f()
	})
}

// Close releases the namespace. Processes inside keep it alive.
func (n *Namespace) Close() error { return n.file.Close() }

// onThread calls a function that may change the namespace of its thread, and returns to the namespace of before. The
// thread lives on: processes that it started are killed when it ends (process.Server). It locks the goroutine to its
// thread meanwhile, because a namespace is a property of a thread.
func onThread(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := os.Open(threadNamespace)
	if err != nil {
		return fmt.Errorf("netns: %w", err)
	}
	defer before.Close()
	err = f()
	if back := unix.Setns(int(before.Fd()), unix.CLONE_NEWNET); back != nil {
		panic("netns: a thread cannot return to its namespace: " + back.Error()) // other goroutines would use it
	}
	// An EPERM of f itself means the same to the caller: this machine does not permit it.
	if errors.Is(err, unix.EPERM) {
		return ErrNotPermitted
	}
	return err
}

// ip executes commands of iproute2 in the namespace of the thread. file is its descriptor 3, unless nil. -batch runs
// all commands in one process and stops at the first that fails.
func ip(ctx context.Context, file *os.File, commands ...string) error {
	cmd := exec.CommandContext(ctx, "ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if file != nil {
		cmd.ExtraFiles = []*os.File{file}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("netns: ip %s: %w: %s", strings.Join(commands, "; "), err, bytes.TrimSpace(out))
	}
	return nil
}
