package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"cqld/login/certificate"
	"cqld/tlsconfig"
)

// The classes of access control, by the last part of their names in Cassandra. They are the values of Options,
// whatever package the file names.
const (
	AllowAllAuthenticator = "AllowAllAuthenticator"
	PasswordAuthenticator = "PasswordAuthenticator"
	MutualAuthenticator   = "MutualTlsAuthenticator"
	FallbackAuthenticator = "MutualTlsWithPasswordFallbackAuthenticator"

	AllowAllAuthorizer  = "AllowAllAuthorizer"
	CassandraAuthorizer = "CassandraAuthorizer"

	AllowAllNetworkAuthorizer  = "AllowAllNetworkAuthorizer"
	CassandraNetworkAuthorizer = "CassandraNetworkAuthorizer"

	AllowAllCIDRAuthorizer  = "AllowAllCIDRAuthorizer"
	CassandraCIDRAuthorizer = "CassandraCIDRAuthorizer"
)

// Access are the options of access control. Classes have the last part of their names in Cassandra; empty means the one
// that allows everything. The empty class of every option is the default. A combination in which one class has no
// effect is refused by validateAccess. Cassandra's role_manager has one implementation here, and permissions are kept
// in the metadata of the cluster, so caches and their intervals have no options.
type Access struct {
	Authenticator string
	// CertificateValidator is validator_class_name of authenticators that use certificates.
	CertificateValidator string // empty means the default validator
	Authorizer           string
	NetworkAuthorizer    string
	CIDRAuthorizer       string
	// CIDRMonitor makes the CIDR authorizer count and log what it would refuse: cidr_authorizer_mode MONITOR.
	CIDRMonitor bool
	// CIDRForSuperusers subjects superusers to the CIDR authorizer: cidr_checks_for_superusers.
	CIDRForSuperusers bool

	// CredentialsValidity is how long correct credentials are remembered, and CredentialsMax of how many roles; 0 means
	// the defaults of package login.
	CredentialsValidity time.Duration
	CredentialsMax      int

	// Superuser and SuperuserPassword are the first superuser of a new cluster with authentication. An empty name means
	// DefaultSuperuser. An empty password means that the node generates one.
	Superuser, SuperuserPassword string
}

// Authenticates reports whether clients must log in. The empty class does not authenticate. A node that does not
// authenticate serves every client as the anonymous user.
func (o *Access) Authenticates() bool {
	return o.Authenticator != "" && o.Authenticator != AllowAllAuthenticator
}

// Authorizes reports whether roles need permissions. Without it, every client may do everything. Without it, GRANT and
// REVOKE are refused, as in Cassandra.
func (o *Access) Authorizes() bool { return o.Authorizer == CassandraAuthorizer }

// RestrictsDatacenters reports whether roles may be restricted to data centers. The restriction is a property of the
// role.
func (o *Access) RestrictsDatacenters() bool {
	return o.NetworkAuthorizer == CassandraNetworkAuthorizer
}

// RestrictsAddresses reports whether roles may be restricted to groups of addresses. MONITOR restricts nothing, but is
// reported here as well.
func (o *Access) RestrictsAddresses() bool { return o.CIDRAuthorizer == CassandraCIDRAuthorizer }

// accessSettings returns the options of access control. Values are class names, in full or without the package, or the
// map with class_name and parameters that cassandra.yaml has. Options of Cassandra's caches and intervals have no
// entry: inert lists them.
//
//	authenticator: PasswordAuthenticator
//	authenticator:
//	  class_name: org.apache.cassandra.auth.MutualTlsAuthenticator
//	  parameters:
//	    validator_class_name: org.apache.cassandra.auth.SpiffeCertificateValidator
func accessSettings() map[string]setting {
	return map[string]setting{
		"authenticator": setAuthenticator,
		"authorizer": class(func(o *Options) *string { return &o.Access.Authorizer }, nil, AllowAllAuthorizer,
			CassandraAuthorizer),
		// There is one role manager, so its name is checked and not stored.
		"role_manager": class(func(*Options) *string { return new(string) }, nil, "CassandraRoleManager"),
		"network_authorizer": class(func(o *Options) *string { return &o.Access.NetworkAuthorizer }, nil,
			AllowAllNetworkAuthorizer, CassandraNetworkAuthorizer),
		"cidr_authorizer": class(func(o *Options) *string { return &o.Access.CIDRAuthorizer }, setCIDRParameter,
			AllowAllCIDRAuthorizer, CassandraCIDRAuthorizer),
		"credentials_validity": duration(func(o *Options) *time.Duration {
			return &o.Access.CredentialsValidity
		}),
		"credentials_cache_max_entries": number(func(o *Options) *int { return &o.Access.CredentialsMax }),
	}
}

// setAuthenticator reads the class of the authenticator. Only those that use certificates have a parameter. The
// parameter is read after the class, which classOf returns first.
func setAuthenticator(o *Options, v *yaml.Node) error {
	parameter := func(o *Options, name, value string) error {
		// PasswordAuthenticator has no parameters in Cassandra either.
		if !o.Access.Mutual() {
			return fmt.Errorf("%s has no parameter %s", o.Access.Authenticator, name)
		}
		return setCertificateValidator(o, name, value)
	}
	// A new setting for each call, because it refers to o through the field.
	return class(func(o *Options) *string { return &o.Access.Authenticator }, parameter, AllowAllAuthenticator,
		PasswordAuthenticator,
		MutualAuthenticator, FallbackAuthenticator)(o, v)
}

// classPackage is the package of the classes in Cassandra. Names without it are accepted, as in Cassandra.
const classPackage = "org.apache.cassandra.auth."

// class reads the name of one of the supported classes. parameter sets one parameter; nil means that there are none.
// The field is set before the parameters are read, so parameter can see the class. Errors name the class.
func class(field func(*Options) *string, parameter func(o *Options, name, value string) error,
	supported ...string) setting {
	return func(o *Options, v *yaml.Node) error {
		// A scalar is the name alone.
		name, parameters, err := classOf(v)
		if err != nil {
			return err
		}
		name = strings.TrimPrefix(name, classPackage)
		// The error lists the alternatives, because a class may be valid in Cassandra.
		if !slices.Contains(supported, name) {
			return fmt.Errorf("%q is not supported; use %s", name, strings.Join(supported, " or "))
		}
		*field(o) = name
		// Keys and values alternate in the content of a YAML mapping.
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

// classOf returns the name of a class and its parameters, as keys and values in turn. The map may be in either of the
// two forms that files of Cassandra have. Parameters of any other kind are errors. An empty name is an error, a missing
// parameters section is not.
func classOf(v *yaml.Node) (name string, parameters []*yaml.Node, err error) {
	// A plain name.
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
		case key == "parameters" && value.Kind == yaml.SequenceNode && len(value.Content) == 1 &&
			value.Content[0].Kind == yaml.MappingNode:
			parameters = value.Content[0].Content // cassandra.yaml has a list of one map in places
		// `parameters:` without a value.
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

// setCIDRParameter sets a parameter of the CIDR authorizer. The intervals and sizes of its caches have no meaning here:
// the groups are in memory and always current. The mode and the check of superusers are the two that decide requests.
func setCIDRParameter(o *Options, name, value string) error {
	switch name {
	case "cidr_authorizer_mode":
		// Cassandra accepts the mode in any case.
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
	// They concern only how often Cassandra reloads its cache.
	case "cidr_groups_cache_refresh_interval", "ip_cache_max_size":
		return nil
	}
	return fmt.Errorf("unknown parameter %s", name)
}

// validateAccess refuses combinations of classes in which one has no effect. A configuration that looks protected and
// is not must not start. Cassandra refuses the same combinations of classes.
func (o *Options) validateAccess(bad func(name, format string, args ...any)) {
	a := &o.Access
	o.validateMutual(bad)
	// From here on, clients do not log in, so the other classes cannot restrict anyone.
	if a.Authenticates() {
		return
	}
	if a.Authorizes() {
		bad("authorizer", "%s has no effect on clients that do not log in: set authenticator to %s", a.Authorizer,
			PasswordAuthenticator)
	}
	// The errors of both options are reported, in any order.
	for name, on := range map[string]bool{"network_authorizer": a.RestrictsDatacenters(),
		"cidr_authorizer": a.RestrictsAddresses()} {
		if on {
			bad(name, "clients must log in to be restricted: set authenticator to %s", PasswordAuthenticator)
		}
	}
	// The password would never be used, and may be one that protects something elsewhere.
	if a.SuperuserPassword != "" {
		bad("superuser", "the password of a superuser has no use without authentication: set authenticator to %s",
			PasswordAuthenticator)
	}
}

// Mutual reports whether clients log in by certificates. The fallback class accepts passwords as well. Either class
// needs client_encryption_options with certificates of clients (validateMutual).
func (o *Access) Mutual() bool {
	return o.Authenticator == MutualAuthenticator || o.Authenticator == FallbackAuthenticator
}

// validateMutual requires certificates of clients if they log in by them.
func (o *Options) validateMutual(bad func(name, format string, args ...any)) {
	a, e := &o.Access, &o.Encryption.Clients
	if !a.Mutual() {
		return
	}
	// The name may come from a caller that has read no file.
	if _, err := certificate.NewValidator(a.CertificateValidator); err != nil {
		bad("authenticator", "%v", err)
	}
	// Clients that fall back to passwords may have no certificates. With the fallback, a client without a certificate
	// logs in by a password, so an optional certificate suffices.
	asked := e.ClientAuth == tlsconfig.ClientAuthRequired || e.ClientAuth == tlsconfig.ClientAuthOptional &&
		a.Authenticator == FallbackAuthenticator
	if !e.Enabled || !asked {
		bad("authenticator", "MutualTlsAuthenticator requires client_encryption_options.enabled to be true & "+
			"client_encryption_options.require_client_auth to be true") // the text of Cassandra
	}
}

// setCertificateValidator reads a parameter of the authenticators that use certificates.
func setCertificateValidator(o *Options, name, value string) error {
	if name != "validator_class_name" {
		return fmt.Errorf("unknown parameter %s; it is validator_class_name", name)
	}
	// Created for its error only: the validator that is used is made when the node opens.
	_, err := certificate.NewValidator(value)
	o.Access.CertificateValidator = value
	return err
}

// DefaultSuperuser is the name of the first superuser if the options name none. It is created only when a cluster
// starts with authentication. Cassandra's superuser is cassandra, with a known password; cqld has neither.
const DefaultSuperuser = "admin"
