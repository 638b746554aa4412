package config

import (
	"strings"
	"testing"
)

func TestClassesOfAccessControl(t *testing.T) {
	for _, c := range []struct {
		text string
		want Access
	}{
		{"authenticator: PasswordAuthenticator", Access{Authenticator: PasswordAuthenticator}},
		{"authenticator: org.apache.cassandra.auth.PasswordAuthenticator\nauthorizer:\n  class_name: " +
			"CassandraAuthorizer",
			Access{Authenticator: PasswordAuthenticator, Authorizer: CassandraAuthorizer}},
		{"role_manager: CassandraRoleManager\nnetwork_authorizer: " +
			"org.apache.cassandra.auth.CassandraNetworkAuthorizer",
			Access{NetworkAuthorizer: CassandraNetworkAuthorizer}},
		{"cidr_authorizer:\n  class_name: CassandraCIDRAuthorizer\n  parameters:\n    cidr_checks_for_superusers: " +
			"true\n    cidr_authorizer_mode: MONITOR\n    ip_cache_max_size: 100",
			Access{CIDRAuthorizer: CassandraCIDRAuthorizer, CIDRMonitor: true, CIDRForSuperusers: true}},
	} {
		o := Options{}
		if err := o.parse("c.yaml", []byte(c.text)); err != nil || o.Access != c.want {
			t.Errorf("%s: %+v, %v", c.text, o.Access, err)
		}
	}
	for text, want := range map[string]string{
		"authorizer: X":                        `"X" is not supported; use AllowAllAuthorizer or CassandraAuthorizer`,
		"authorizer: { parameters: { a: b } }": "class_name is missing",
		"authorizer: { class_name: CassandraAuthorizer, x: y " +
			"}": "expected class_name and parameters",
		"authenticator: { class_name: PasswordAuthenticator, parameters: { x: y } " +
			"}": "PasswordAuthenticator has no parameter x",
		"cidr_authorizer: { class_name: CassandraCIDRAuthorizer, parameters: { x: y } " +
			"}": "unknown parameter x",
		"cidr_authorizer: { class_name: CassandraCIDRAuthorizer, parameters: { cidr_authorizer_mode: off } " +
			"}": "neither MONITOR nor ENFORCE",
	} {
		o := Options{}
		if err := o.parse("c.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, change := range []func(*Access){func(a *Access) { a.Authorizer = CassandraAuthorizer },
		func(a *Access) { a.CIDRAuthorizer = CassandraCIDRAuthorizer },
		func(a *Access) { a.NetworkAuthorizer = CassandraNetworkAuthorizer },
		func(a *Access) { a.SuperuserPassword = "x" }} {
		o := Default()
		if change(&o.Access); o.Validate() == nil {
			t.Errorf("%+v without authentication is accepted", o.Access)
		}
	}
}
