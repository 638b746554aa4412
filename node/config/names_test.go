package config

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// directory is a resolver with these names.
type directory map[string][]string

func (d directory) lookup(_ context.Context, name string) (out []netip.Addr, err error) {
	addrs, ok := d[name]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	for _, a := range addrs {
		if a == "timeout" {
			return nil, &net.DNSError{Err: "i/o timeout", Name: name, IsTimeout: true}
		}
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

func TestSeedsMayBeNames(t *testing.T) {
	for _, c := range []struct {
		list         []string
		seeds, names string
		bad          bool
	}{
		{[]string{"127.0.0.1", " 127.0.0.2:7001 ", ""}, "127.0.0.1:7000 127.0.0.2:7001", "", false},
		{[]string{"a-0.a", "127.0.0.2", "b:7001"}, "", "a-0.a:7000 127.0.0.2:7000 b:7001", false},
		{[]string{"a:0"}, "", "", true},
		{[]string{"a:70000"}, "", "", true},
		{[]string{"127.0.0.1.2"}, "", "", true},
		{[]string{"-a"}, "", "", true},
		{[]string{"a..b"}, "", "", true},
		{[]string{"a b"}, "", "", true},
		{[]string{strings.Repeat("a", 64)}, "", "", true},
		{slices.Repeat([]string{"a"}, seedNamesMax+1), "", "", true},
	} {
		o := Default()
		err := o.SetSeeds(c.list)
		var seeds []string
		for _, s := range o.Join.Seeds {
			seeds = append(seeds, s.String())
		}
		if (err != nil) != c.bad || strings.Join(seeds, " ") != c.seeds || strings.Join(o.Join.SeedNames,
			" ") != c.names {
			t.Errorf("%q: %v, %q, %v", c.list, seeds, o.Join.SeedNames, err)
		}
	}
}

func TestSeedsAreFound(t *testing.T) {
	for _, c := range []struct {
		name    string
		dns     directory
		seeds   []string
		addrs   string
		first   bool
		missing string
	}{
		{"first start of the first", directory{"a": {"127.0.0.1"}}, []string{"a", "b"}, "127.0.0.1:7000", true,
			"b:7000 has no address"},
		{"another node", directory{"a": {"127.0.0.2"}, "b": {"127.0.0.1"}}, []string{"a", "b"},
			"127.0.0.2:7000 127.0.0.1:7000", false, ""},
		{"the resolver fails for a seed", directory{"a": {"127.0.0.1"}, "b": {"timeout"}}, []string{"a", "b"},
			"127.0.0.1:7000", false, "b:7000: lookup b: i/o timeout"},
		{"the name of a service", directory{"all": {"127.0.0.2", "127.0.0.1"}}, []string{"all"},
			"127.0.0.1:7000 127.0.0.2:7000", false, ""},
		{"names and addresses", directory{"b": {"::ffff:127.0.0.3"}}, []string{"127.0.0.1", "b:7001"},
			"127.0.0.1:7000 127.0.0.3:7001", true, ""},
	} {
		o := Default()
		o.Listen.LookupHost = c.dns.lookup
		if err := o.SetSeeds(c.seeds); err != nil {
			t.Fatal(err)
		}
		s := o.FindSeeds(t.Context())
		var addrs []string
		for _, a := range s.Addrs {
			addrs = append(addrs, a.String())
		}
		missing := ""
		if s.Missing != nil {
			missing = s.Missing.Error()
		}
		if strings.Join(addrs, " ") != c.addrs || s.First != c.first || missing != c.missing {
			t.Errorf("%s: %v, first %t, missing %q", c.name, addrs, s.First, missing)
		}
	}
}

func TestOwnNames(t *testing.T) {
	o := Default()
	o.Listen.LookupHost = directory{"me": {"::1", "127.0.0.5"}}.lookup
	for _, err := range []error{o.SetListenAddress("me"), o.SetRPCAddress("me"), o.SetRPCAddress("127.0.0.6"),
		o.ResolveNames(t.Context())} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if o.Listen.Address.String() != "127.0.0.5" || o.Listen.RPCAddress.String() != "127.0.0.6" {
		t.Errorf("listen_address %s, rpc_address %s", o.Listen.Address, o.Listen.RPCAddress)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := o.SetListenAddress("elsewhere"); err != nil {
		t.Fatal(err)
	}
	if err := o.ResolveNames(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("an unknown name: %v", err)
	}
}
