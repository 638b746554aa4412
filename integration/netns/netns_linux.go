package netns

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// environment is the variable by which Run passes the path of the firewall program to the process that it starts. It
// distinguishes the two processes: the same variable says that this one is inside.
const environment = "CQLD_NETNS_FIREWALL"

// Inside reports whether this process was started by Run.
func Inside() bool { return os.Getenv(environment) != "" }

// ErrNotPermitted is the error of Run when the process may not create network namespaces. Tests skip on it.
var ErrNotPermitted = errors.New("netns: network namespaces are not permitted here")

// BuildFirewall builds the firewall program into a directory, and returns its path. root is the repository. The go
// command may download modules, so BuildFirewall must not be called inside the namespace.
func BuildFirewall(ctx context.Context, root, dir string) (string, error) {
	program := filepath.Join(dir, "firewall")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	cmd.Dir = filepath.Join(root, "integration", "firewall")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("netns: build the firewall program: %w\n%s", err, out)
	}
	return program, nil
}

// Run executes this program again, with other arguments, in a network namespace of its own, and returns its output.
// firewall is the path of the program that BuildFirewall has built, or another text if the test drops no packets. It
// returns standard output and standard error together. args usually select one test of this binary.
func Run(ctx context.Context, firewall string, args ...string) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), environment+"="+firewall)
	// Pdeathsig refers to the thread that starts the process. Go ends threads rarely, only those locked by a goroutine
	// that ended.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		err = ErrNotPermitted
	}
	return out, err
}

// LoopbackUp makes 127.0.0.0/8 work in a new namespace. It is the equivalent of "ip link set lo up", without iproute2.
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
	// The address 127.0.0.1/8 is assigned by the kernel when the device goes up.
	lo.SetUint16(lo.Uint16() | unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("netns: %w", err)
	}
	return nil
}

// Firewall drops packets in this namespace. It is not safe for concurrent use. Its rules are in a table of this
// namespace. One line is one command, and one line its answer: "ok" or "error …".
type Firewall struct {
	cmd      *exec.Cmd
	commands io.WriteCloser
	answers  *bufio.Scanner
}

// NewFirewall starts the firewall program, which accepts all packets at first. The caller closes it.
func NewFirewall() (*Firewall, error) {
	cmd := exec.Command(os.Getenv(environment))
	// Its messages belong to the test's output.
	cmd.Stderr = os.Stderr
	commands, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("netns: %w", err)
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("netns: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("netns: start the firewall program: %w", err)
	}
	f := &Firewall{cmd: cmd, commands: commands, answers: bufio.NewScanner(answers)}
	if err := f.answer(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Close ends the firewall program. Packets that it drops continue to be dropped.
func (f *Firewall) Close() error { return errors.Join(f.commands.Close(), f.cmd.Wait()) }

// answer reads the result of one command. The program says "ok" once after its start, too.
func (f *Firewall) answer() error {
	if !f.answers.Scan() {
		return fmt.Errorf("netns: the firewall program has ended: %w",
			errors.Join(io.ErrUnexpectedEOF, f.answers.Err()))
	}
	if text := f.answers.Text(); text != "ok" {
		return fmt.Errorf("netns: firewall: %s", strings.TrimPrefix(text, "error "))
	}
	return nil
}

// execute sends one command and waits for its result.
func (f *Firewall) execute(command string) error {
	if _, err := fmt.Fprintln(f.commands, command); err != nil {
		return fmt.Errorf("netns: firewall: %w", err)
	}
	return f.answer()
}

// Drop drops every packet from one IPv4 address to another. Packets in the other direction arrive. The sender gets no
// error: its packets time out, as with a broken cable.
func (f *Firewall) Drop(from, to netip.Addr) error {
	return f.execute(fmt.Sprint("drop ", from, " ", to))
}

// Cut drops every packet between an address of one side and an address of the other. It stops at the first error, with
// some pairs cut.
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

// Heal accepts all packets again. Connections that were cut survive if TCP's retransmissions have not given up.
func (f *Firewall) Heal() error { return f.execute("heal") }
