// Package cluster runs real Kubernetes control planes on this machine: etcd,
// kube-apiserver and, where asked for, kube-controller-manager, each a process
// of its own on free ports, so that several run side by side. Tests, the demo
// and the benchmarks use it.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster/audit"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
)

const (
	localhost = "127.0.0.1"
	serviceIP = "10.0.0.1"

	// startTimeout bounds a start whose context has no deadline. A start takes
	// two seconds; the rest is for machines that do other things too.
	startTimeout = 2 * time.Minute
	pollInterval = 50 * time.Millisecond
)

// Options say what a cluster is like. The zero value is etcd and an API server
// without an audit log.
type Options struct {
	// Controllers are the controllers of kube-controller-manager, which only runs if
	// there are any. See Controllers.
	Controllers []string
	// Manifests are files and folders that are applied, CRDs first, before
	// kube-controller-manager starts: its garbage collector looks for new kinds
	// only every 30 seconds.
	Manifests []string
	// Audit switches the audit log on: one entry per completed request.
	Audit bool
	// AuditUsers narrows the audit log to these users and the administrator; none
	// means everybody. Where thousands of kubelets speak, the log of what they say
	// would cost more than the answers.
	AuditUsers []string
	// APIServerFlags and ControllerManagerFlags are added to the command lines;
	// a flag that is there already is replaced.
	APIServerFlags, ControllerManagerFlags []string
	// Dir is where data, certificates and logs go; "" means a new temporary
	// folder, which Stop removes.
	Dir string
}

// Controllers returns the two controllers that nearly everything depends on
// (owner references and namespaces), and more.
func Controllers(more ...string) []string {
	return append([]string{"garbage-collector-controller", "namespace-controller"}, more...)
}

// A Cluster is a running control plane. Its methods can be called by several
// goroutines.
type Cluster struct {
	options   Options
	assets    Assets
	dir       string
	temporary bool
	pki       *pki
	etcdURL   string
	port      int // of the API server; it stays when the server restarts

	mu                                 sync.Mutex // guards the processes
	etcd, apiServer, controllerManager *process.Process
}

// Start runs a cluster and returns when it serves requests and has its system
// namespaces. The context bounds the start, not the life of the cluster: call
// Stop. On Linux the processes also die with this one. A failed start leaves
// nothing running, and its error carries the end of the log.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	c, err := prepare(o)
	if err != nil {
		return nil, err
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, startTimeout)
}

func prepare(o Options) (*Cluster, error) {
	assets, err := find(len(o.Controllers) > 0)
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: o, assets: assets, dir: o.Dir}
	if c.dir == "" {
		if c.dir, err = os.MkdirTemp("", "cluster-"); err != nil {
			return nil, err
		}
		c.temporary = true
	}
	if c.dir, err = filepath.Abs(c.dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, err
	}
	c.pki, err = newPKI(c.dir)
	return c, err
}

func (c *Cluster) start(ctx context.Context) error {
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	if err := c.firstStartAPIServer(ctx); err != nil {
		return err
	}
	if err := writeKubeconfig(c.Kubeconfig(), c.Config()); err != nil {
		return err
	}
	if err := c.apply(ctx, c.options.Manifests); err != nil {
		return err
	}
	if len(c.options.Controllers) == 0 {
		return nil
	}
	return c.startControllerManager(ctx)
}

// Stop ends the cluster, newest process first, and removes its folder if that
// was temporary. It can be called again.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	// What is stopped is thrown away, so no process gets time to shut down. An API
	// server that gets SIGTERM waits for its watches.
	err := errors.Join(c.controllerManager.Kill(), c.apiServer.Kill(), c.etcd.Kill())
	if c.temporary {
		err = errors.Join(err, os.RemoveAll(c.dir))
	}
	return err
}

// URL is where the API server listens, https://127.0.0.1:<port>.
func (c *Cluster) URL() string { return fmt.Sprintf("https://%s:%d", localhost, c.port) }

// CA returns the certificate of the authority that signed the API server's
// certificate and that it accepts client certificates of, in PEM.
func (c *Cluster) CA() []byte { return slices.Clone(c.pki.ca.pem) }

// Dir is the folder with data, certificates and logs. Callers may add files.
func (c *Cluster) Dir() string { return c.dir }

// Kubectl returns the path of a kubectl of the cluster's version.
func (c *Cluster) Kubectl() string { return c.assets.Kubectl }

// Audit returns the audit log. It is empty unless Options.Audit was set.
func (c *Cluster) Audit() audit.Log { return audit.Log{Path: filepath.Join(c.dir, "audit.log")} }

// logTails returns the ends of all logs, for people who look for a failure.
func (c *Cluster) logTails() string {
	var text strings.Builder
	for _, name := range []string{etcdProgram, apiServerProgram, controllerManagerProgram} {
		if _, err := os.Stat(c.logFile(name)); err == nil {
			text.WriteString(process.Tail(name, c.logFile(name)))
		}
	}
	return text.String()
}

func (c *Cluster) logFile(name string) string { return filepath.Join(c.dir, name+".log") }
