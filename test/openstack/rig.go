package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
)

// Rig is a running OpenStack.
type Rig struct {
	address

	foreign   bool // another process started it and will stop it
	cinder    *httptest.Server
	processes []*process.Process
	guests    *process.Process // the hypervisor, if there is one
	admin     *client
	number    atomic.Int64 // of what this process makes
	model     model
	books     database
	free      stock
}

// address is how to find a rig and what it was seeded with.
type address struct {
	settings

	CinderURL string
	Images    map[string]string // ids by name
	Flavors   map[string]string
	External  string // id of the network that has the floating IPs
}

func newRig(a address) *Rig {
	r := &Rig{address: a}
	r.admin = &client{rig: r, user: "admin", password: adminPassword, project: "admin"}
	return r
}

// startTimeout bounds the start of a rig on a machine with much other work.
const startTimeout = 30 * time.Minute

// Options say what a rig has besides what every rig has.
type Options struct {
	// Hypervisor adds a compute whose servers are guests of this machine, in ZoneReal.
	// See RequireHypervisor.
	Hypervisor bool
	// KVM lets the processor run the guests; otherwise QEMU emulates one.
	KVM bool
}

// Start starts an OpenStack. The first time on a machine it takes a minute, later
// half of that.
func Start(ctx context.Context, o Options) (*Rig, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	archive, err := schemas(ctx, cache)
	if err != nil {
		return nil, fmt.Errorf("make databases: %w", err)
	}
	removeLeftovers()
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", leftover, os.Getpid()))
	if err != nil {
		return nil, err
	}
	r := newRig(address{
		settings: settings{Dir: dir, Ports: map[string]int{}, PageSize: PageSize, Zone: Zone, Options: o},
		Images:   map[string]string{}, Flavors: map[string]string{},
	})
	if err := r.start(ctx, archive); err != nil {
		r.Stop()
		return nil, err
	}
	return r, nil
}

// leftover is how the folders of rigs begin; the number of the process follows.
const leftover = "mcm-openstack-"

// removeLeftovers removes the folders of processes that died.
func removeLeftovers() {
	found, _ := filepath.Glob(filepath.Join(os.TempDir(), leftover+"*")) // a wrong pattern cannot be
	for _, dir := range found {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), leftover), "-")
		if _, err := os.Stat("/proc/" + pid); errors.Is(err, os.ErrNotExist) {
			_ = os.RemoveAll(dir) // whoever comes next tries again
		}
	}
}

// cacheDir is out/openstack of this repository, also for tests in a module of their own.
func cacheDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "test", "openstack", "packages")); err == nil {
			return filepath.Join(dir, "out", "openstack"), nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("not in the repository")
		}
	}
}

func (r *Rig) start(ctx context.Context, archive string) error {
	var err error
	for _, name := range []string{"keystone", "placement", "glance", "neutron", "nova"} {
		if r.Ports[name], err = process.FreePort(); err != nil {
			return err
		}
	}
	r.cinder = httptest.NewServer(newCinder(r.projectOf))
	r.CinderURL = r.cinder.URL
	if err := r.write(); err != nil {
		return err
	}
	if _, err := run(ctx, "", "tar", "-C", filepath.Join(r.Dir, "state"), "-xf", archive); err != nil {
		return err
	}
	db, err := r.startDB(ctx)
	if err != nil {
		return err
	}
	r.processes = append(r.processes, db)
	if _, err := r.sql(ctx, r.cells()+r.endpoints()); err != nil {
		return err
	}
	if err := r.startServices(ctx); err != nil {
		return err
	}
	return r.seed(ctx)
}

// environment is what all of OpenStack's programs get.
func (s settings) environment() []string {
	var drivers []string
	for _, h := range s.hosts() {
		drivers = append(drivers, h.name+"="+h.driver)
	}
	return []string{
		"OS_KEYSTONE_CONFIG_FILES=" + s.file("keystone.conf"), "OS_PLACEMENT_CONFIG_DIR=" + filepath.Join(s.Dir, "files"),
		"PYTHONPATH=" + filepath.Join(s.Dir, "files"), "PYTHONDONTWRITEBYTECODE=1", "NOVA_HOSTS=" +
			strings.Join(drivers, ","),
	}
}

// startServices starts what listens on ports. Nova wants to find the others.
func (r *Rig) startServices(ctx context.Context) error {
	glance := `import sys; from glance.cmd.api import main; sys.exit(main())`
	early := map[string][]string{
		"keystone":  {python, r.file("serve.py"), "keystone", fmt.Sprint(r.Ports["keystone"])},
		"placement": {python, r.file("serve.py"), "placement", fmt.Sprint(r.Ports["placement"])},
		"glance":    {python, "-c", glance, "--config-file", r.file("glance-api.conf")},
		"neutron":   {python, r.file("run_neutron.py"), "--config-file", r.file("neutron.conf")},
	}
	for _, name := range []string{"keystone", "placement", "glance", "neutron"} {
		if err := r.startService(name, early[name]); err != nil {
			return err
		}
	}
	if err := r.startHypervisor(ctx); err != nil {
		return err
	}
	if err := r.awaitServices(ctx, "keystone", "placement"); err != nil {
		return err
	}
	// Keystone loads its policies with the first token that it checks. Two at once fail, and a compute that
	// Placement refused for that has no capacity until it tries again.
	token, err := r.admin.logIn(ctx)
	if err != nil {
		return err
	}
	if !r.Valid(ctx, token) {
		return errors.New("check a token: Keystone does not know one that it has just given out")
	}
	if err := r.startService("nova", []string{
		python, r.file("run_nova.py"), "--config-file",
		r.file("nova.conf"),
	}); err != nil {
		return err
	}
	return r.awaitServices(ctx, "glance", "neutron", "nova")
}

func (r *Rig) startService(name string, command []string) error {
	p, err := process.Start(process.Command{
		Name: name, Program: command[0], Args: command[1:], Env: r.environment(), Log: r.log(name),
	})
	if err == nil {
		r.processes = append(r.processes, p)
	}
	return err
}

// awaitServices waits until services answer, whatever they answer.
func (r *Rig) awaitServices(ctx context.Context, names ...string) error {
	for _, p := range r.processes {
		if !slices.Contains(names, p.Name()) {
			continue
		}
		if err := p.AwaitReady(ctx, r.answers(p.Name())); err != nil {
			return err
		}
	}
	return nil
}

// answers returns a probe that succeeds when a service answers, whatever it answers.
func (r *Rig) answers(service string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL(service)+"/", http.NoBody)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
}

// Stop ends everything that this process started and removes its folder. Of a rig
// of another process it only lets go of the connections.
func (r *Rig) Stop() {
	r.books.close()
	if r.foreign {
		return
	}
	for _, p := range slices.Backward(r.processes) {
		_ = p.Kill() // the kernel does it when this process ends
	}
	if r.cinder != nil {
		r.cinder.CloseClientConnections()
		r.cinder.Close()
	}
	_ = os.RemoveAll(r.Dir) // the next rig removes what is left
}

// Logs are the ends of what the services wrote.
func (r *Rig) Logs() string {
	var all []string
	for _, p := range r.processes {
		all = append(all, p.Tail())
	}
	return strings.Join(all, "\n")
}
