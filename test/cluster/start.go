package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
)

// startReady starts a program and waits until ready returns nil.
func (c *Cluster) startReady(ctx context.Context, name, program string, args []string,
	ready func(context.Context) error,
) (*process.Process, error) {
	command := process.Command{Name: name, Program: program, Args: args, Log: c.logFile(name)}
	return process.StartReady(ctx, command, ready)
}

// prober returns a client that keeps no connections: they would survive in
// their own way when the other side is killed.
func prober(config *tls.Config) *http.Client {
	return &http.Client{
		Timeout:   2 * time.Second,
		Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true},
	}
}

func trusting(ca *authority) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// withFlags returns base with more added. A flag of base that more has too is
// left out.
func withFlags(base, more []string) []string {
	name := func(flag string) string { n, _, _ := strings.Cut(flag, "="); return n }
	kept := slices.DeleteFunc(slices.Clone(base), func(b string) bool {
		return slices.ContainsFunc(more, func(m string) bool { return name(m) == name(b) })
	})
	return append(kept, more...)
}
