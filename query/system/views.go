package system

// viewRows are those of system_views.
func (s *Source) viewRows(b *builder) {
	switch b.table.Name {
	case "clients":
		s.clientRows(b)
	case "settings":
		s.settingRows(b)
	}
}

func (s *Source) clientRows(b *builder) {
	if s.o.Clients == nil {
		return
	}
	for _, c := range s.o.Clients() {
		if c.Hostname == "" {
			c.Hostname = c.Address.Addr().String()
		}
		if c.User == "" {
			c.User = "anonymous"
		}
		if c.Stage == "" {
			c.Stage = "ready"
		}
		b.add(values{
			"address":          inet(c.Address.Addr()),
			"port":             integer(int32(c.Address.Port())),
			"client_options":   textMap(c.Options),
			"connection_stage": text(c.Stage),
			"driver_name":      textOrNull(c.Options["DRIVER_NAME"]),
			"driver_version":   textOrNull(c.Options["DRIVER_VERSION"]),
			"hostname":         text(c.Hostname),
			"keyspace_name":    textOrNull(c.Keyspace),
			"protocol_version": integer(int32(c.ProtocolVersion)),
			"request_count":    bigint(c.Requests),
			"ssl_cipher_suite": textOrNull(c.TLSCipher),
			"ssl_enabled":      boolean(c.TLS),
			"ssl_protocol":     textOrNull(c.TLSProtocol),
			"username":         text(c.User),
		})
	}
}

func (s *Source) settingRows(b *builder) {
	if s.o.Settings == nil {
		return
	}
	for name, value := range s.o.Settings() {
		b.add(values{"name": text(name), "value": text(value)})
	}
}
