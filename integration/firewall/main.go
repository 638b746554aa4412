// Command firewall drops packets in the network namespace that it runs in, by nftables. It is a module of its own, so
// that the module of cqld does not require nftables. Package netns of integration starts it.
//
// It prints "ok" when it has created its table. It then reads commands from its standard input, one on each line, and
// answers each with "ok" or with "error MESSAGE":
//
//	drop FROM TO   drop every packet from one IPv4 address to another; packets in the other direction arrive
//	heal           accept all packets again
//
// It exits when its standard input ends. The table is gone with the namespace.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

func main() {
	f, err := newFirewall()
	answer(err)
	if err != nil {
		os.Exit(1)
	}
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		answer(f.execute(strings.Fields(commands.Text())))
	}
}

// answer prints the result of one command.
func answer(err error) {
	if err != nil {
		fmt.Println("error", strings.Join(strings.Fields(err.Error()), " "))
		return
	}
	fmt.Println("ok")
}

// firewall is a table of nftables with one chain. Without rules it accepts all packets.
type firewall struct {
	conn  *nftables.Conn
	table *nftables.Table
	drops *nftables.Chain
}

func newFirewall() (*firewall, error) {
	c, err := nftables.New()
	if err != nil {
		return nil, err
	}
	f := &firewall{conn: c, table: c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "cqld"})}
	// The chain drops packets on arrival: the sender of a packet dropped on output would receive an error.
	f.drops = c.AddChain(&nftables.Chain{Name: "drops", Table: f.table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter})
	return f, c.Flush()
}

// execute executes one command.
func (f *firewall) execute(words []string) error {
	switch {
	case len(words) == 3 && words[0] == "drop":
		from, err := netip.ParseAddr(words[1])
		to, err2 := netip.ParseAddr(words[2])
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if !from.Is4() || !to.Is4() {
			return errors.New("addresses must be IPv4 addresses")
		}
		return f.drop(from, to)
	case len(words) == 1 && words[0] == "heal":
		f.conn.FlushChain(f.drops)
		return f.conn.Flush()
	}
	return fmt.Errorf("unknown command %q", strings.Join(words, " "))
}

func (f *firewall) drop(from, to netip.Addr) error {
	const source, destination = 12, 16 // offsets in an IPv4 header
	match := func(offset uint32, a netip.Addr) []expr.Any {
		b := a.As4()
		return []expr.Any{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: b[:]}}
	}
	rule := append(match(source, from), match(destination, to)...)
	f.conn.AddRule(&nftables.Rule{Table: f.table, Chain: f.drops,
		Exprs: append(rule, &expr.Verdict{Kind: expr.VerdictDrop})})
	return f.conn.Flush()
}
