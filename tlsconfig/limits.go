package tlsconfig

import "time"

const (
	// A certificate with its chain takes 1 to 8 KiB, and the bundle of all public authorities 250 KiB.
	pemBytesMax = 4 << 20
	// A revoked certificate takes 20 to 40 bytes, so this is over a million of them.
	revocationBytesMax = 64 << 20

	// Certificates of one bundle, and of a chain that this process presents.
	trustedMax = 4096
	chainMax   = 16

	// Names in a certificate of this process or of a peer. Public authorities issue up to 100.
	namesMax = 256

	// Weaker RSA keys are refused by current clients.
	rsaBitsMin = 2048

	// How often the files are checked for changes. Reading their sizes and times costs some microseconds.
	pollInterval = 5 * time.Second

	// How long before the expiry of a certificate warnings begin, and how often they are repeated.
	expiryNotice   = 30 * 24 * time.Hour
	expiryReminder = 24 * time.Hour
)
