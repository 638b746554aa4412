package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// accessSettings returns the options of access control. Values are class names, in full or without the package, or the map
// with class_name and parameters that cassandra.yaml has.
func accessSettings() map[string]setting {
	return map[string]setting{
		"authenticator":      setAuthenticator,
		"authorizer":         class(func(o *Options) *string { return &o.Access.Authorizer }, nil, allowAllAuthorizer, cassandraAuthorizer),
		"role_manager":       class(func(*Options) *string { return new(string) }, nil, "CassandraRoleManager"),
		"network_authorizer": class(func(o *Options) *string { return &o.Access.NetworkAuthorizer }, nil, allowAllNetworkAuthorizer, cassandraNetworkAuthorizer),
		"cidr_authorizer": class(func(o *Options) *string { return &o.Access.CIDRAuthorizer }, setCIDRParameter,
			allowAllCIDRAuthorizer, cassandraCIDRAuthorizer),
		"credentials_validity":          duration(func(o *Options) *time.Duration { return &o.Access.CredentialsValidity }),
		"credentials_cache_max_entries": number(func(o *Options) *int { return &o.Access.CredentialsMax }),
	}
}

// setAuthenticator reads the class of the authenticator. Only those that use certificates have a parameter.
func setAuthenticator(o *Options, v *yaml.Node) error {
	parameter := func(o *Options, name, value string) error {
		if !o.Access.mutual() {
			return fmt.Errorf("%s has no parameter %s", o.Access.Authenticator, name)
		}
		return setCertificateValidator(o, name, value)
	}
	return class(func(o *Options) *string { return &o.Access.Authenticator }, parameter, allowAllAuthenticator, passwordAuthenticator,
		mutualAuthenticator, fallbackAuthenticator)(o, v)
}

const classPackage = "org.apache.cassandra.auth."

// class reads the name of one of the supported classes. parameter sets one parameter; nil means that there are none.
func class(field func(*Options) *string, parameter func(o *Options, name, value string) error, supported ...string) setting {
	return func(o *Options, v *yaml.Node) error {
		name, parameters, err := classOf(v)
		if err != nil {
			return err
		}
		name = strings.TrimPrefix(name, classPackage)
		if !slices.Contains(supported, name) {
			return fmt.Errorf("%q is not supported; use %s", name, strings.Join(supported, " or "))
		}
		*field(o) = name
		for i := 0; i+1 < len(parameters); i += 2 {
			key, value := parameters[i].Value, parameters[i+1].Value
			if parameter == nil {
				return fmt.Errorf("%s has no parameter %s", name, key)
			}
			if err := parameter(o, key, value); err != nil {
				return err
			}
		}
		return nil
	}
}

// classOf returns the name of a class and its parameters, as keys and values in turn.
func classOf(v *yaml.Node) (name string, parameters []*yaml.Node, err error) {
	if v.Kind != yaml.MappingNode {
		name, err = scalar(v)
		return name, nil, err
	}
	for i := 0; i+1 < len(v.Content); i += 2 {
		value := v.Content[i+1]
		switch key := v.Content[i].Value; {
		case key == "class_name" && value.Kind == yaml.ScalarNode:
			name = value.Value
		case key == "parameters" && value.Kind == yaml.MappingNode:
			parameters = value.Content
		case key == "parameters" && value.Kind == yaml.SequenceNode && len(value.Content) == 1 && value.Content[0].Kind == yaml.MappingNode:
			parameters = value.Content[0].Content // cassandra.yaml has a list of one map in places
		case key == "parameters" && value.Tag == "!!null":
		default:
			return "", nil, fmt.Errorf("line %d: expected class_name and parameters", v.Content[i].Line)
		}
	}
	if name == "" {
		return "", nil, errors.New("class_name is missing")
	}
	return name, parameters, nil
}

// setCIDRParameter sets a parameter of the CIDR authorizer. The intervals and sizes of its caches have no meaning here: the
// groups are in memory and always current.
func setCIDRParameter(o *Options, name, value string) error {
	switch name {
	case "cidr_authorizer_mode":
		switch strings.ToUpper(value) {
		case "ENFORCE", "MONITOR":
			o.Access.CIDRMonitor = strings.EqualFold(value, "MONITOR")
			return nil
		}
		return fmt.Errorf("cidr_authorizer_mode: %q is neither MONITOR nor ENFORCE", value)
	case "cidr_checks_for_superusers":
		if value != "true" && value != "false" {
			return fmt.Errorf("cidr_checks_for_superusers: %q is neither true nor false", value)
		}
		o.Access.CIDRForSuperusers = value == "true"
		return nil
	case "cidr_groups_cache_refresh_interval", "ip_cache_max_size":
		return nil
	}
	return fmt.Errorf("unknown parameter %s", name)
}
