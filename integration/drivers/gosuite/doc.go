// Package gosuite is the driver suite of the two Go drivers: the checks of ../README.md over an interface that gocql
// and its successor under Apache both fit through a small adapter (go-gocql, go-apache). It knows neither driver.
package gosuite
