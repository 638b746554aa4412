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

// LookupTimeout bounds the lookup of all names of the seeds, or of one of this node's own names. The lookups are made
// when the node starts, and again for each attempt to join. It bounds each lookup, not the retries of ownLookups.
const LookupTimeout = 5 * time.Second

// ownLookups is how often the lookup of an own name is tried, with a pause of ownLookupPause: an orchestrator may
// publish the name of a container shortly after it has started.
const (
	ownLookups     = 20
	ownLookupPause = time.Second
)

// Bounds of the names of seeds, and of the addresses of each that are used. A service of an orchestrator may have many
// addresses; the node needs one that answers.
const (
	seedNamesMax     = 64
	seedAddressesMax = 16
)

// LookupHost returns the addresses of a host name. A *net.DNSError with IsNotFound means that the name has no address.
// Tests replace it; a name has IPv4 and IPv6 addresses.
type LookupHost func(ctx context.Context, name string) ([]netip.Addr, error)

// lookup calls the resolver of the options, or the machine's resolver. The result may contain IPv4 addresses in IPv6
// form, which callers unmap.
func (o *Options) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if o.Listen.LookupHost != nil {
		return o.Listen.LookupHost(ctx, name)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// isHostName reports whether s looks like a host name, and not like a mistyped IP address. A name needs a letter, so
// that an invalid address is not looked up as a name. "10.0.0.256" has no letter and is therefore an invalid address
// and not a name.
func isHostName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	// A name may end with a dot, which makes it absolute.
	letter := false
	for label := range strings.SplitSeq(strings.TrimSuffix(s, "."), ".") {
		// Labels and the whole name have the limits of the DNS (RFC 1035 §2.3.4). An underscore is allowed, because
		// service names have one.
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

// ResolveNames looks up the addresses of ListenName and RPCName, if they are set. IPv4 addresses take precedence. A
// name that is not set keeps the address that is. It blocks up to ownLookups times until a name appears, and returns
// the error of ctx if that ends first. A change of the name's address later has no effect until the next start: members
// are known by their addresses.
func (o *Options) ResolveNames(ctx context.Context) error {
	// The addresses are set in place, so that everything after this uses them.
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

// ownAddress looks up a name of this machine. It waits for the name to appear, within the bounds above. An IPv4 address
// is preferred. The last error is returned if the name does not appear.
func (o *Options) ownAddress(ctx context.Context, name string) (netip.Addr, error) {
	var err error
	// Every kind of error is retried: a resolver may fail for a moment, too.
	for i := range ownLookups {
		if i > 0 {
			select {
			case <-ctx.Done():
				return netip.Addr{}, ctx.Err()
			case <-time.After(ownLookupPause):
			}
		}
		var addrs []netip.Addr
		// Each lookup has its own time, so a resolver that does not answer is retried, too.
		bounded, cancel := context.WithTimeout(ctx, LookupTimeout)
		addrs, err = o.lookup(bounded, name)
		cancel()
		if err == nil && len(addrs) > 0 {
			// IPv4 first: clients of one family can usually use IPv4.
			slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return a.Unmap().BitLen() - b.Unmap().BitLen() })
			return addrs[0].Unmap(), nil
		}
	}
	// The resolver found the name without an address.
	if err == nil {
		err = errors.New("the name has no address")
	}
	return netip.Addr{}, fmt.Errorf("the name %s of this machine was not found: %w", name, err)
}

// FindSeeds looks up the seeds. This node is the first seed if the first name has one address, its own: the name of a
// service has the addresses of all nodes, and each would create a cluster. The seeds are looked up together; a name
// that is not found does not stop the others. Without names, the result is empty: Join.Seeds has the addresses then.
// Two nodes that both believed to be the first would create two clusters of one name, which cannot be merged.
func (o *Options) FindSeeds(ctx context.Context) (s cluster.SeedAddresses) {
	var missing []error
	failed := false
	for i, seed := range o.Join.SeedNames {
		addrs, err := o.findSeed(ctx, seed)
		var dns *net.DNSError
		switch {
		// A seed without an address is reported, and joining continues with the others.
		case errors.As(err, &dns) && dns.IsNotFound:
			missing = append(missing, fmt.Errorf("%s has no address", seed))
		case err != nil:
			// A lookup that failed may have been the first seed's own name, so this node must not count as the first.
			failed = true
			missing = append(missing, fmt.Errorf("%s: %w", seed, err))
		// Only one address, and exactly this node's.
		case i == 0 && len(addrs) == 1 && addrs[0] == o.Internode():
			s.First = true
		}
		// A name with many addresses would fill the list.
		s.Addrs = append(s.Addrs, addrs[:min(len(addrs), seedAddressesMax)]...)
	}
	// The first node of a cluster creates it, so this must be certain.
	s.First = s.First && !failed
	s.Missing = errors.Join(missing...)
	return s
}

// findSeed returns the addresses of one seed, NAME:PORT or ADDRESS:PORT. An address needs no lookup. The addresses are
// sorted and distinct. An address in the list may be this node's own.
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
	// The port is configured, and only the addresses are looked up.
	found, err := o.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	var out []netip.AddrPort
	for _, a := range found {
		// Unmapped, so that the address of this node is recognized in FindSeeds.
		out = append(out, netip.AddrPortFrom(a.Unmap(), uint16(port)))
	}
	// The order and the number of addresses do not depend on the resolver.
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out), nil
}

// SeedTexts returns the seeds as they were configured. They are the names rather than the addresses that were found.
func (o *Options) SeedTexts() []string {
	// Names include the seeds that are addresses (SetSeeds).
	if len(o.Join.SeedNames) > 0 {
		return o.Join.SeedNames
	}
	var out []string
	for _, s := range o.Join.Seeds {
		out = append(out, s.String())
	}
	return out
}
