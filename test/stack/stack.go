// Package stack runs everything that the main job needs as real processes: a
// control plane, the simulated cloud, and managers. The demo, the benchmark and
// the integration tests drive it.
package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
)

// ManagerUser is who managers are in the audit log.
const ManagerUser = "manager"

// Namespace is where the native objects are.
const Namespace = "default"

// Options say how a Stack is started.
type Options struct {
	// Controllers of kube-controller-manager, which only runs if there are any.
	Controllers []string
	// ControllerManagerFlags are added to its command line.
	ControllerManagerFlags []string
	// CRDs is the folder with the CRDs; empty is config/crd.
	CRDs string
	// ClusterAPI adds Cluster API's own kinds, without its controllers.
	ClusterAPI bool
	// Audit switches the API server's audit log on.
	Audit bool
	// AuditUsers narrows it to these users and the administrator; none means everybody.
	AuditUsers []string
	// Cloud are flags of simcloud.
	Cloud []string
	// Manager are flags of every manager.
	Manager []string
	// Dir is where data and logs go; empty is a temporary folder that Stop removes.
	Dir string
	// Binaries is the folder with manager and simcloud. See Build.
	Binaries string
}

// Stack is a running control plane with a cloud.
type Stack struct {
	Cluster *cluster.Cluster
	Cloud   *Cloud
	Client  client.Client // as cluster admin, without a cache

	options  Options
	dir      string
	temp     bool
	scheme   *runtime.Scheme
	managers []*Manager
	simcloud *process.Process
}

// Start starts a control plane with our CRDs, and the simulated cloud. Managers
// are started by StartManager. What has been started is stopped on an error.
func Start(ctx context.Context, o Options) (_ *Stack, err error) {
	s := &Stack{options: o, dir: o.Dir, scheme: runtime.NewScheme()}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	if s.dir == "" {
		s.temp = true
		if s.dir, err = os.MkdirTemp("", "stack-"); err != nil {
			return nil, err
		}
	}
	if err := clientgoscheme.AddToScheme(s.scheme); err != nil {
		return nil, err
	}
	if err := errors.Join(machinev1.AddToScheme(s.scheme), infrav1.AddToScheme(s.scheme),
		clusterv1.AddToScheme(s.scheme)); err != nil {
		return nil, err
	}
	root, err := cluster.Root()
	if err != nil {
		return nil, err
	}
	crds := o.CRDs
	if crds == "" {
		crds = filepath.Join(root, "config", "crd")
	}
	manifests := []string{crds, filepath.Join(root, "config", "samples", "sim", "bootstrap-rbac.yaml")}
	if o.ClusterAPI {
		kinds, err := clusterAPIKinds(ctx)
		if err != nil {
			return nil, err
		}
		manifests = append(manifests, kinds)
	}
	s.Cluster, err = cluster.Start(ctx, cluster.Options{
		Controllers: o.Controllers, ControllerManagerFlags: o.ControllerManagerFlags, Audit: o.Audit,
		AuditUsers: o.AuditUsers,
		Dir:        filepath.Join(s.dir, "cluster"),
		Manifests:  manifests,
	})
	if err != nil {
		return nil, err
	}
	if s.Client, err = client.New(s.Cluster.Config(), client.Options{Scheme: s.scheme}); err != nil {
		return nil, err
	}
	return s, s.startCloud(ctx)
}

// Stop ends everything and removes what it left behind, unless Options.Dir kept it.
func (s *Stack) Stop() error {
	var errs []error
	for _, m := range slices.Backward(s.managers) {
		errs = append(errs, m.Kill())
	}
	errs = append(errs, s.simcloud.Kill())
	if s.Cluster != nil {
		errs = append(errs, s.Cluster.Stop())
	}
	if s.temp {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// Logs returns the last lines of the managers' and the cloud's logs.
func (s *Stack) Logs() string {
	var text strings.Builder
	for _, m := range s.managers {
		text.WriteString(m.process.Tail())
	}
	return text.String() + s.simcloud.Tail()
}

// Dir is where data and logs are.
func (s *Stack) Dir() string { return s.dir }

// startCloud starts simcloud, whose kubelets speak to the cluster as admin.
func (s *Stack) startCloud(ctx context.Context) error {
	kubeconfig, err := s.Cluster.KubeconfigFor("simcloud", "system:masters")
	if err != nil {
		return err
	}
	address := filepath.Join(s.dir, "simcloud.address")
	args := append([]string{"--address-file=" + address, "--kubeconfig=" + kubeconfig}, s.options.Cloud...)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	s.simcloud, err = process.StartReady(ctx, process.Command{
		Program: filepath.Join(s.options.Binaries, "simcloud"), Args: args, Log: filepath.Join(s.dir, "simcloud.log"),
	}, func(context.Context) error {
		text, err := os.ReadFile(address)
		if err != nil || len(text) == 0 {
			return errors.New("simcloud does not listen yet")
		}
		s.Cloud = newCloud(string(text))
		return nil
	})
	return err
}

// Manager is one running manager.
type Manager struct {
	Name    string
	Port    int // of health and metrics
	process *process.Process
}

// Kill ends the manager without notice, as a crash would.
func (m *Manager) Kill() error { return m.process.Kill() }

// Terminate asks the manager to end, and returns when it has. One that does not
// end within two minutes is killed, which is an error.
func (m *Manager) Terminate() error { return m.process.Stop(2 * time.Minute) }

// PID is the process.
func (m *Manager) PID() int { return m.process.PID() }

// Ended reports whether the process has ended.
func (m *Manager) Ended() bool { return m.process.Ended() }

// StartManager starts a manager as user ManagerUser, with the flags of the
// options followed by more. It does not wait until it leads.
func (s *Stack) StartManager(more ...string) (*Manager, error) {
	return s.StartManagerFrom(s.options.Binaries, more...)
}

// StartManagerFrom is StartManager with the program of another folder, e.g. that of an
// older version.
func (s *Stack) StartManagerFrom(folder string, more ...string) (*Manager, error) {
	kubeconfig, err := s.Cluster.KubeconfigFor(ManagerUser, "system:masters")
	if err != nil {
		return nil, err
	}
	port, err := process.FreePort()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("manager-%d", len(s.managers)+1)
	args := []string{
		"--control-kubeconfig=" + kubeconfig, "--target-kubeconfig=" + kubeconfig, "--namespace=" + Namespace,
		"--address=127.0.0.1", "--port=" + strconv.Itoa(port), "--machine-controller-port=0",
	}
	args = append(append(args, s.options.Manager...), more...)
	p, err := process.Start(process.Command{
		Name: name, Program: filepath.Join(folder, ManagerProgram), Args: args,
		Log: filepath.Join(s.dir, name+".log"),
	})
	if err != nil {
		return nil, err
	}
	m := &Manager{Name: name, Port: port, process: p}
	s.managers = append(s.managers, m)
	return m, nil
}

// Events are those of a reason about an object, asked for as MCM's integration
// suite does.
func (s *Stack) Events(ctx context.Context, reason, object string) ([]corev1.Event, error) {
	var list corev1.EventList
	err := s.Client.List(ctx, &list, client.InNamespace(Namespace),
		client.MatchingFields{"reason": reason, "involvedObject.name": object})
	return list.Items, err
}

// clusterAPIKinds is the folder with the CRDs of Cluster API's core, in the module
// that the product is built with.
func clusterAPIKinds(ctx context.Context) (string, error) {
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		return "", fmt.Errorf("find Cluster API's module: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), "core", "config", "crd", "bases"), nil
}
