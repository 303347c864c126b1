package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
)

// auditPolicy makes one entry of every completed request, without its body; of
// these users and the administrator only, if any are named.
func auditPolicy(users []string) string {
	rules := "{level: Metadata}"
	if len(users) > 0 {
		all := append([]string{adminUser}, users...)
		rules = fmt.Sprintf("{level: Metadata, users: [%s]}, {level: None}", strings.Join(all, ", "))
	}
	return `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [` + rules + `]
`
}

// ErrAPIServerRuns is returned by StartAPIServer while the API server runs.
var ErrAPIServerRuns = errors.New("the API server runs already")

// KillAPIServer ends the API server without notice, as a crash would.
func (c *Cluster) KillAPIServer() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.apiServer.Kill()
}

// StartAPIServer starts an API server that was killed, with the same address,
// certificates and data, and returns when it serves requests.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	c.mu.Lock()
	running := !c.apiServer.Ended()
	c.mu.Unlock()
	if running {
		return ErrAPIServerRuns
	}
	return process.RetryPorts(func() error { return c.startAPIServer(ctx) })
}

// RestartAPIServer kills and starts the API server.
func (c *Cluster) RestartAPIServer(ctx context.Context) error {
	if err := c.KillAPIServer(); err != nil {
		return err
	}
	return c.StartAPIServer(ctx)
}

// SuspendAPIServer stops the API server in its tracks and returns when it
// stands: connections are accepted, and nothing answers.
func (c *Cluster) SuspendAPIServer() error {
	if err := c.signalAPIServer(syscall.SIGSTOP); err != nil {
		return err
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if c.apiServer.Suspended() {
			return nil
		}
	}
	return errors.New("the API server goes on although it was told to stop")
}

// ResumeAPIServer ends a suspension.
func (c *Cluster) ResumeAPIServer() error { return c.signalAPIServer(syscall.SIGCONT) }

func (c *Cluster) signalAPIServer(s syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.apiServer.Signal(s)
}

func (c *Cluster) firstStartAPIServer(ctx context.Context) error {
	if err := os.WriteFile(c.auditPolicyFile(), []byte(auditPolicy(c.options.AuditUsers)), 0o600); err != nil {
		return err
	}
	return process.RetryPorts(func() error {
		port, err := process.FreePort()
		if err != nil {
			return err
		}
		c.port = port
		return c.startAPIServer(ctx)
	})
}

func (c *Cluster) startAPIServer(ctx context.Context) error {
	flags := withFlags(c.apiServerFlags(), c.options.APIServerFlags)
	p, err := c.startReady(ctx, apiServerProgram, c.assets.APIServer, flags, c.apiServerReady)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.apiServer = p
	return nil
}

// apiServerReady also waits for the namespaces that the API server makes a
// moment after it says that it is ready.
func (c *Cluster) apiServerReady(ctx context.Context) error {
	client := prober(trusting(c.pki.ca))
	for _, path := range []string{
		"/readyz", "/api/v1/namespaces/default", "/api/v1/namespaces/kube-system",
		"/api/v1/namespaces/kube-public", "/api/v1/namespaces/kube-node-lease",
	} {
		if err := process.Probe(ctx, client, c.URL()+path, c.pki.token); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) apiServerFlags() []string {
	flags := []string{
		"--etcd-servers=" + c.etcdURL,
		"--bind-address=" + localhost,
		"--advertise-address=" + localhost,
		fmt.Sprintf("--secure-port=%d", c.port),
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--tls-cert-file=" + c.pki.serving,
		"--tls-private-key-file=" + c.pki.servingKey,
		"--client-ca-file=" + c.pki.caCert,
		"--cert-dir=" + filepath.Join(c.dir, "certs"),
		"--token-auth-file=" + c.pki.tokens,
		"--enable-bootstrap-token-auth=true",
		"--authorization-mode=Node,RBAC",
		"--service-account-key-file=" + c.pki.key,
		"--service-account-signing-key-file=" + c.pki.key,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--allow-privileged=true",
		"--profiling=false",
		// Priority and fairness divides the sum of these.
		"--max-requests-inflight=3000",
		"--max-mutating-requests-inflight=1500",
	}
	if !slices.Contains(c.options.Controllers, "serviceaccount-controller") {
		// No controller makes the service accounts that it would demand of every Pod.
		flags = append(flags, "--disable-admission-plugins=ServiceAccount")
	}
	if c.options.Audit {
		flags = append(flags,
			"--audit-policy-file="+c.auditPolicyFile(),
			"--audit-log-path="+c.Audit().Path,
			"--audit-log-maxsize=1000000") // MB: the file is never rotated away
	}
	return flags
}

func (c *Cluster) auditPolicyFile() string { return filepath.Join(c.dir, "audit-policy.yaml") }
