package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// setListenAddress reads listen_address. Flags use the setter, which has no YAML.
func setListenAddress(o *Options, v *yaml.Node) error { return o.SetListenAddress(v.Value) }

// setRPCAddress reads rpc_address.
func setRPCAddress(o *Options, v *yaml.Node) error { return o.SetRPCAddress(v.Value) }

// SetListenAddress sets the address for other nodes: an IP address, or a name of this machine.
func (o *Options) SetListenAddress(s string) error {
	return setOwn(s, &o.Listen.Address, &o.Listen.Name)
}

// SetRPCAddress sets the address for clients: an IP address, or a name of this machine.
func (o *Options) SetRPCAddress(s string) error {
	o.Listen.rpcSet = true
	return setOwn(s, &o.Listen.RPCAddress, &o.Listen.RPCName)
}

// setOwn sets an address of this node, or the name from which ResolveNames determines it.
func setOwn(s string, addr *netip.Addr, name *string) error {
	a, err := ParseAddress(s)
	switch {
	// A name that an earlier source has set must not replace the address later.
	case err == nil:
		*addr, *name = a, ""
	// The address stays until the name is resolved, so that Validate finds one.
	case isHostName(s):
		*name = s
	default:
		return fmt.Errorf("%q is neither an IP address nor a host name", s)
	}
	return nil
}

// ParseAddress reads an IP address; localhost is 127.0.0.1.
func ParseAddress(s string) (netip.Addr, error) {
	// Without the resolver: on many machines, localhost also has an IPv6 address.
	if s == "localhost" {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%q is not an IP address", s)
	}
	return a, nil
}

// setSeeds reads the option of cqld: one text with commas, or a list.
func setSeeds(o *Options, v *yaml.Node) error {
	var list []string
	// The text is the form of the environment and of seed_provider.
	switch v.Kind {
	case yaml.ScalarNode:
		list = strings.Split(v.Value, ",")
	case yaml.SequenceNode:
		for _, e := range v.Content {
			list = append(list, e.Value)
		}
	default:
		return errors.New("expected addresses")
	}
	return o.SetSeeds(list)
}

// setControlAddress reads control_address. validateAddresses decides whether the address is safe.
func setControlAddress(o *Options, v *yaml.Node) error {
	a, err := ParseAddressPort(v.Value)
	if err == nil {
		o.Listen.ControlAddress = a
	}
	return err
}

// setHealthAddress reads health_address.
func setHealthAddress(o *Options, v *yaml.Node) error {
	a, err := ParseAddressPort(v.Value)
	if err == nil {
		o.Listen.HealthAddress = a
	}
	return err
}

// ParseAddressPort reads an IP address with a port.
func ParseAddressPort(s string) (netip.AddrPort, error) {
	a, err := netip.ParseAddrPort(s)
	if err != nil {
		return a, fmt.Errorf("%q is not an address with a port such as 127.0.0.1:7199", s)
	}
	return a, nil
}

// SetSeeds sets the seeds: IP addresses or host names, with or without a port.
func (o *Options) SetSeeds(list []string) error {
	// Both forms are collected, because whether a name occurs is known only after the last seed.
	var addrs []netip.AddrPort
	var names []string
	named := false
	for _, s := range list {
		// An empty element is no seed, as after a comma at the end.
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		addr, name, err := parseSeed(s, o.Listen.StoragePort)
		if err != nil {
			return err
		}
		addrs, names = append(addrs, addr), append(names, name)
		named = named || !addr.IsValid()
	}
	// names also has the addresses, so the bound is on all seeds.
	if len(names) > seedNamesMax {
		return fmt.Errorf("%d seeds: at most %d are allowed", len(names), seedNamesMax)
	}
	// One name makes all of them names, because the first seed is decided by its position among all.
	if o.Join.Seeds, o.Join.SeedNames = addrs, nil; named {
		o.Join.Seeds, o.Join.SeedNames = nil, names
	}
	return nil
}

// parseSeed reads a seed. addr is not valid if it is a host name.
func parseSeed(s string, defaultPort uint16) (addr netip.AddrPort, name string, err error) {
	// Before HOST:PORT, because an IPv6 address contains colons.
	if a, err := ParseAddress(s); err == nil {
		addr = netip.AddrPortFrom(a, defaultPort)
		return addr, addr.String(), nil
	}
	if addr, err = netip.ParseAddrPort(s); err == nil && addr.Port() != 0 {
		return addr, addr.String(), nil
	}
	// What is left is a name, or an error.
	host, portText, found := strings.Cut(s, ":")
	p := uint64(defaultPort)
	if found {
		p, err = strconv.ParseUint(portText, 10, 16)
	} else {
		// The failure to read an address with a port does not concern a name.
		err = nil
	}
	if err != nil || p == 0 || !isHostName(host) {
		return netip.AddrPort{}, "", fmt.Errorf("seed %q is neither an address such as 127.0.0.1 or 127.0.0.1:7000 "+
			"nor a host name", s)
	}
	return netip.AddrPort{}, net.JoinHostPort(host, strconv.FormatUint(p, 10)), nil
}

// setSeedProvider reads the form that cassandra.yaml has: a list of one class with a list of one parameter.
func setSeedProvider(o *Options, v *yaml.Node) error {
	var providers []struct {
		Class      string `yaml:"class_name"`
		Parameters []struct {
			Seeds string `yaml:"seeds"`
			// All addresses of a name are used, whatever Cassandra's option says.
			AllAddresses string               `yaml:"resolve_multiple_ip_addresses_per_dns_record"`
			Unknown      map[string]yaml.Node `yaml:",inline"`
		} `yaml:"parameters"`
		// Unknown holds every other field. Without it, the decoder would ignore them.
		Unknown map[string]yaml.Node `yaml:",inline"`
	}
	err := v.Decode(&providers)
	// A misspelt field comes before what is missing because of it.
	for _, p := range providers {
		if err := unknownSeedField(p.Unknown, "class_name and parameters"); err != nil {
			return err
		}
		for _, x := range p.Parameters {
			const known = "seeds and resolve_multiple_ip_addresses_per_dns_record"
			if err := unknownSeedField(x.Unknown, known); err != nil {
				return err
			}
		}
	}
	// Several providers, or several lists, could name different seeds.
	if err != nil || len(providers) != 1 || len(providers[0].Parameters) != 1 {
		return errors.New("expected one SimpleSeedProvider with one list of seeds")
	}
	if p := providers[0].Class; !strings.HasSuffix(p, "SimpleSeedProvider") {
		return fmt.Errorf("class_name %q is not supported yet; it is SimpleSeedProvider", p)
	}
	return o.SetSeeds(strings.Split(providers[0].Parameters[0].Seeds, ","))
}

// unknownSeedField returns an error that names the first of the unknown fields, in alphabetical order. known names the
// fields that exist at its place.
func unknownSeedField(unknown map[string]yaml.Node, known string) error {
	if len(unknown) == 0 {
		return nil
	}
	return fmt.Errorf("%s: unknown field; the fields are %s", slices.Min(slices.Collect(maps.Keys(unknown))), known)
}
