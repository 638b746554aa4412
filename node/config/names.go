package config

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"cqld/cluster"
)

// LookupTimeout bounds the lookup of all names of the seeds, or of one of this node's own names.
const LookupTimeout = 5 * time.Second

// ownLookups is how often the lookup of an own name is tried, with a pause of ownLookupPause: an orchestrator may
// publish the name of a container shortly after it has started.
const (
	ownLookups     = 20
	ownLookupPause = time.Second
)

// Bounds of the names of seeds, and of the addresses of each that are used.
const (
	seedNamesMax     = 64
	seedAddressesMax = 16
)

// LookupHost returns the addresses of a host name. A *net.DNSError with IsNotFound means that the name has no address.
type LookupHost func(ctx context.Context, name string) ([]netip.Addr, error)

// lookup calls the resolver of the options, or the machine's resolver.
func (o *Options) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if o.Listen.LookupHost != nil {
		return o.Listen.LookupHost(ctx, name)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// isHostName reports whether s looks like a host name, and not like a mistyped IP address.
func isHostName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	letter := false
	for label := range strings.SplitSeq(strings.TrimSuffix(s, "."), ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			switch {
			case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
				letter = true
			case '0' <= c && c <= '9', c == '-', c == '_':
			default:
				return false
			}
		}
	}
	return letter
}

// ResolveNames looks up the addresses of ListenName and RPCName, if they are set. IPv4 addresses take precedence.
func (o *Options) ResolveNames(ctx context.Context) error {
	for _, own := range []struct {
		option, name string
		addr         *netip.Addr
	}{{"listen_address", o.Listen.Name, &o.Listen.Address}, {"rpc_address", o.Listen.RPCName, &o.Listen.RPCAddress}} {
		if own.name == "" {
			continue
		}
		addr, err := o.ownAddress(ctx, own.name)
		if err != nil {
			return fmt.Errorf("%s: %w", own.option, err)
		}
		*own.addr = addr
	}
	return nil
}

// ownAddress looks up a name of this machine.
func (o *Options) ownAddress(ctx context.Context, name string) (netip.Addr, error) {
	var err error
	for i := range ownLookups {
		if i > 0 {
			select {
			case <-ctx.Done():
				return netip.Addr{}, ctx.Err()
			case <-time.After(ownLookupPause):
			}
		}
		var addrs []netip.Addr
		bounded, cancel := context.WithTimeout(ctx, LookupTimeout)
		addrs, err = o.lookup(bounded, name)
		cancel()
		if err == nil && len(addrs) > 0 {
			slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return a.Unmap().BitLen() - b.Unmap().BitLen() })
			return addrs[0].Unmap(), nil
		}
	}
	if err == nil {
		err = errors.New("the name has no address")
	}
	return netip.Addr{}, fmt.Errorf("the name %s of this machine was not found: %w", name, err)
}

// FindSeeds looks up the seeds. This node is the first seed if the first name has one address, its own: the name of a
// service has the addresses of all nodes, and each would create a cluster.
func (o *Options) FindSeeds(ctx context.Context) (s cluster.SeedAddresses) {
	var missing []error
	failed := false
	for i, seed := range o.Join.SeedNames {
		addrs, err := o.findSeed(ctx, seed)
		var dns *net.DNSError
		switch {
		case errors.As(err, &dns) && dns.IsNotFound:
			missing = append(missing, fmt.Errorf("%s has no address", seed))
		case err != nil:
			failed = true
			missing = append(missing, fmt.Errorf("%s: %w", seed, err))
		case i == 0 && len(addrs) == 1 && addrs[0] == o.Internode():
			s.First = true
		}
		s.Addrs = append(s.Addrs, addrs[:min(len(addrs), seedAddressesMax)]...)
	}
	s.First = s.First && !failed
	s.Missing = errors.Join(missing...)
	return s
}

// findSeed returns the addresses of one seed, NAME:PORT or ADDRESS:PORT.
func (o *Options) findSeed(ctx context.Context, seed string) ([]netip.AddrPort, error) {
	if a, err := netip.ParseAddrPort(seed); err == nil {
		return []netip.AddrPort{a}, nil
	}
	host, portText, err := net.SplitHostPort(seed)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, err
	}
	found, err := o.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	var out []netip.AddrPort
	for _, a := range found {
		out = append(out, netip.AddrPortFrom(a.Unmap(), uint16(port)))
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out), nil
}

// SeedTexts returns the seeds as they were configured.
func (o *Options) SeedTexts() []string {
	if len(o.Join.SeedNames) > 0 {
		return o.Join.SeedNames
	}
	var out []string
	for _, s := range o.Join.Seeds {
		out = append(out, s.String())
	}
	return out
}
