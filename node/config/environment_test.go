package config

import (
	"maps"
	"strings"
	"testing"
)

// TestEnvironmentSetsEveryOption sets each option that has a default in words by a variable and in the file: the
// results are equal.
func TestEnvironmentSetsEveryOption(t *testing.T) {
	for name, value := range map[string]string{"cluster_name": "shop", "num_tokens": "8",
		"seeds": "127.0.0.1,127.0.0.2", "data_file_directories": "[/tmp/x]",
		"rpc_address": "127.0.0.7", "authenticator": "PasswordAuthenticator", "read_request_timeout": "7s",
		"read_request_timeout_in_ms": "7000",
		"client_encryption_options":  "{enabled: true, private_key: /k}", "tables_port": "0", "tables_hosts": "[cqld]",
		"development":  "true",
		"memory_limit": "512MiB", "concurrent_reads": "3", "initial_token": "1,2", "tables_warn_threshold": "5"} {
		file, variable := Default(), Default()
		if err := file.parse("c.yaml", []byte(name+": "+value)); err != nil {
			t.Fatal(err)
		}
		if err := variable.LoadEnvironment([]string{"PATH=/bin", "CQLD_" + strings.ToUpper(name) + "=" +
			value}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if f, v := file.Settings(), variable.Settings(); !maps.Equal(f, v) {
			t.Errorf("%s: the environment sets %v, the file %v", name, v, f)
		}
	}
	for entry, want := range map[string]string{
		"CQLD_NUM_TOKENS=many":  `environment variable CQLD_NUM_TOKENS: "many" is not a whole number`,
		"CQLD_CDC_ENABLED=true": "CQLD_CDC_ENABLED: not supported: there is no change data capture",
		"CQLD_SEEDS=[":          "CQLD_SEEDS: yaml",
	} {
		o := Default()
		if err := o.LoadEnvironment([]string{entry}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", entry, err, want)
		}
	}
	seeds := Default()
	if err := seeds.LoadEnvironment([]string{"CQLD_SEEDS=127.0.0.9", "CQLD_STORAGE_PORT=7009"}); err != nil ||
		seeds.Join.Seeds[0].Port() != 7009 {
		t.Errorf("seeds before the port: %v, %v", err, seeds.Join.Seeds)
	}
	o := Default()
	if err := o.LoadEnvironment([]string{"CQLD_CLUSTERNAME=x", "CQLD_PORT_9042_TCP=tcp://1", "CQLD_ORACLE=1",
		"CQLD_DATA_DIR=/x"}); err != nil ||
		len(o.Warnings) != 1 || o.Warnings[0] != "CQLD_CLUSTERNAME is no option; did you mean CQLD_CLUSTER_NAME?" {
		t.Errorf("%v, %q", err, o.Warnings)
	}
}

// TestAllAddressesNeedDevelopmentOrSecurity checks which options allow rpc_address 0.0.0.0.
func TestAllAddressesNeedDevelopmentOrSecurity(t *testing.T) {
	const secure = "authenticator: PasswordAuthenticator\nclient_encryption_options: {enabled: true, private_key: /k}\n"
	for _, c := range []struct{ file, want, native, listener string }{
		{"rpc_address: 0.0.0.0", "serves clients of all networks", "", ""},
		{"rpc_address: 0.0.0.0\nbroadcast_rpc_address: 127.0.0.1", "serves clients of all networks", "", ""},
		{"rpc_address: 0.0.0.0\nbroadcast_rpc_address: 127.0.0.1\nallow_insecure_listen_addresses: true",
			"serves clients of all networks", "", ""},
		{"rpc_address: '::'\nauthenticator: PasswordAuthenticator", "serves clients of all networks", "", ""},
		{secure + "rpc_address: 0.0.0.0", "must be the address that clients connect to", "", ""},
		{secure + "rpc_address: 0.0.0.0\nbroadcast_rpc_address: 0.0.0.0", "clients cannot connect to 0.0.0.0", "", ""},
		{secure + "rpc_address: 0.0.0.0\nbroadcast_rpc_address: 192.0.2.1", "", "192.0.2.1:9042", "0.0.0.0:9042"},
		{"development: true", "", "127.0.0.1:9042", "0.0.0.0:9042"},
		{"development: true\nrpc_address: 127.0.0.1", "", "127.0.0.1:9042", "127.0.0.1:9042"},
		{"development: true\nbroadcast_rpc_address: 192.0.2.1", "", "192.0.2.1:9042", "0.0.0.0:9042"},
		{"development: true\nlisten_address: 0.0.0.0", "listen_address", "", ""},
		{"development: true\nlisten_address: 192.0.2.1", "connections between nodes are not always encrypted", "", ""},
		{"broadcast_rpc_address: 127.0.0.9", "", "127.0.0.9:9042", "127.0.0.1:9042"},
	} {
		o := Default()
		err := o.parse("c.yaml", []byte(c.file))
		if err == nil {
			o.ApplyDevelopment()
			err = o.Validate()
		}
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q: %v, want %q", c.file, err, c.want)
			}
			continue
		}
		if err != nil || o.Native().String() != c.native || o.NativeListener().String() != c.listener {
			t.Errorf("%q: %v, clients connect to %s, the node listens at %s", c.file, err, o.Native(),
				o.NativeListener())
		}
		if o.DevelopmentMode && (!o.Development() || len(o.Insecurities()) != 1 ||
			!strings.Contains(o.Insecurities()[0], "without login")) {
			t.Errorf("%q: the development account is served: %t; %q", c.file, o.Development(), o.Insecurities())
		}
	}
}
