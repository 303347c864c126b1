package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// errPortTaken says that a program ended because another one listens on its
// port.
var errPortTaken = errors.New("address already in use")

// startReady launches a program and waits until ready returns nil. It gives up
// when the context ends or the program does.
func (c *Cluster) startReady(ctx context.Context, name, program string, args []string,
	ready func(context.Context) error,
) (*process, error) {
	offset := size(c.logFile(name))
	p, err := launch(name, program, c.logFile(name), args)
	if err != nil {
		return nil, err
	}
	var last error
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		if p.ended() {
			return false, fmt.Errorf("%s ended", name)
		}
		last = ready(ctx)
		return last == nil, nil
	})
	if err == nil {
		return p, nil
	}
	killed := p.kill()
	if portTaken(c.logFile(name), offset) {
		err = errPortTaken
	}
	return nil, fmt.Errorf("%s is not ready: %w\n%s", name, errors.Join(err, last, killed), tail(name, c.logFile(name)))
}

// retryPorts calls start until it does not fail because of a port that another
// process took first.
func retryPorts(start func() error) error {
	var err error
	for range portRetries {
		if err = start(); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return err
}

// portTaken reports whether a log, from an offset on, tells of a port clash.
func portTaken(log string, offset int64) bool {
	text, err := os.ReadFile(log)
	return err == nil && strings.Contains(string(text[min(offset, int64(len(text))):]), errPortTaken.Error())
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// probe returns nil if GET url answers 200.
func probe(ctx context.Context, client *http.Client, url, token string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, answer.Status)
	}
	return nil
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
