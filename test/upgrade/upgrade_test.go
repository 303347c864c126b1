package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster/audit"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// binaries is the folder with manager and simcloud, built once for all tests.
var binaries string

func TestMain(m *testing.M) {
	if _, err := cluster.Find(); err == nil {
		if binaries, err = stack.Build(context.Background()); err != nil {
			println(err.Error())
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// TestUpgrade is the guarantee: this version, started on what an older one left
// behind, replaces no machine. Each controller has to have worked by then: every
// pool is scaled by one, every edit that was made while no manager ran is
// applied, and the collector of orphans has deleted a VM that is one.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	cluster.Require(t)
	versions, err := filepath.Glob("testdata/v*")
	if err != nil || len(versions) == 0 {
		t.Fatalf("no records below testdata: %v", err)
	}
	for _, dir := range versions {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			restore(t, dir).runs(binaries, "upgraded")
		})
	}
}

// goBackTo is a commit whose manager knows less than this tree's of what is recorded with
// machines and tagged in clouds: it reads a fleet without the cloud's account, the fate of
// volumes and interfaces, and the id that is read back from a VM.
const goBackTo = "08d2aaf4"

// TestGoBack is the guarantee in both directions: an older version, started on what this
// one has written, replaces no machine, and neither does this one after it.
func TestGoBack(t *testing.T) {
	t.Parallel()
	cluster.Require(t)
	older := olderManager(t)
	versions, err := filepath.Glob("testdata/v*")
	if err != nil || len(versions) == 0 {
		t.Fatalf("no records below testdata: %v", err)
	}
	u := restore(t, versions[len(versions)-1])
	u.runs(binaries, "upgraded")
	u.runs(older, "back")
	u.runs(binaries, "upgraded-again")
}

// olderManager returns a folder with the manager of goBackTo. A copy of the repository
// without its history has none.
func olderManager(t *testing.T) string {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	archive, tree := filepath.Join(dir, "tree.tar"), filepath.Join(dir, "tree")
	if out, err := exec.CommandContext(t.Context(), "git", "-C", root, "archive", "--output="+archive,
		goBackTo).CombinedOutput(); err != nil {
		t.Skipf("commit %s is not in this repository: %v: %s", goBackTo, err, out)
	}
	for _, command := range [][]string{
		{"mkdir", tree},
		{"tar", "-xf", archive, "-C", tree},
		{"go", "build", "-C", tree, "-o", filepath.Join(dir, stack.ManagerProgram), "./cmd/manager"},
	} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
	return dir
}

// runs starts the manager of a folder, gives it work named name, and stops it when all is
// done. Nothing may have been replaced by then.
func (u *upgrade) runs(folder, name string) {
	u.Helper()
	before := u.picture()
	from, err := u.Cluster.Mark(u.Context())
	u.must(err)
	manager, err := u.StartManagerFrom(folder, "--machine-safety-orphan-vms-period=10s")
	u.must(err)
	u.work(name)
	u.until("every pool has one machine more, and the orphan is gone: "+name, func(ctx context.Context) error {
		return done(ctx, u.Stack, u.core)
	})
	u.until("what was edited is applied: "+name, u.applied)
	u.must(manager.Terminate())
	pools := u.pools(before)
	u.nothingReplaced(before, u.picture(), pools)
	u.nothingAsked(from, pools)
}

// upgrade is a stack that has been given what a version left behind.
type upgrade struct {
	*stack.Stack
	*testing.T
	core  *core
	stray string // id of a VM that is an orphan
}

// restore starts a control plane and a cloud with a record in them, and no manager.
func restore(t *testing.T, dir string) *upgrade {
	t.Helper()
	r, err := readRelease(dir)
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(t.TempDir(), "cloud")
	if err := os.WriteFile(state, r.cloud, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := stack.Start(t.Context(), stack.Options{
		Controllers: cluster.Controllers(), Binaries: binaries, Audit: true, AuditUsers: []string{stack.ManagerUser},
		Cloud: []string{"--state=" + state, "--latency=20ms", "--boot-time=500ms", "--delete-time=200ms"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Logs())
		}
		if err := s.Stop(); err != nil {
			t.Log(err)
		}
	})
	u := &upgrade{Stack: s, T: t}
	u.core, err = openCore(t.Context(), s)
	u.must(err)
	given, err := kubeconfig(s)
	u.must(err)
	addresses := strings.NewReplacer(
		kubeconfigPlaceholder, string(given),
		cloudPlaceholder, s.Cloud.Endpoint, serverPlaceholder, s.Cluster.URL(), caPlaceholder,
		base64.StdEncoding.EncodeToString(s.Cluster.CA()),
	)
	u.must(r.replace(addresses.Replace))
	resources := map[schema.GroupVersionKind]string{}
	for _, k := range kinds() {
		resources[k.GroupVersionKind] = k.resource
	}
	for _, o := range r.objects {
		if o.GetKind() == "MCMExternalControlPlane" {
			u.must(endpoint(o, s.Cluster.URL()))
		}
		u.must(s.Cluster.Store(t.Context(), resources[o.GroupVersionKind()], o))
	}
	return u
}

// endpoint has the control plane of a record be where that of this run is.
func endpoint(plane *unstructured.Unstructured, server string) error {
	at, err := url.Parse(server)
	if err != nil {
		return err
	}
	port, err := strconv.ParseInt(at.Port(), 10, 32)
	if err != nil {
		return err
	}
	annotations := plane.GetAnnotations()
	if _, filled := annotations[controlplanev1.FilledEndpointAnnotation]; filled {
		annotations[controlplanev1.FilledEndpointAnnotation] = at.Host
		plane.SetAnnotations(annotations)
	}
	return unstructured.SetNestedMap(plane.Object, map[string]any{"host": at.Hostname(), "port": port}, "spec",
		"controlPlaneEndpoint")
}

func (u *upgrade) must(err error) {
	u.Helper()
	if err != nil {
		u.Fatal(err)
	}
}

// until waits for a step, and says how long it took.
func (u *upgrade) until(what string, check func(context.Context) error) {
	u.Helper()
	began := time.Now()
	if err := stack.Until(u.Context(), timeout, check); err != nil {
		u.Fatalf("%s: %v", what, err)
	}
	u.Logf("%s: %.1f s", what, time.Since(began).Seconds())
}

// work gives every controller something to do. Names of different work differ.
func (u *upgrade) work(name string) {
	u.Helper()
	var err error
	u.stray, err = u.Cloud.CreateVM(u.Context(), "stray-"+name)
	u.must(err)
	u.must(u.core.worker(u.Context(), "worker-"+name))
	var deployments machinev1.MachineDeploymentList
	u.must(u.Client.List(u.Context(), &deployments))
	for i := range deployments.Items {
		d := &deployments.Items[i]
		u.must(u.Edit(u.Context(), d, func() { d.Spec.Replicas++ }))
	}
	machines, err := u.Machines(u.Context(), "")
	u.must(err)
	for i := range machines {
		m := &machines[i]
		if len(m.OwnerReferences) == 0 {
			u.must(u.Edit(u.Context(), m, func() { m.Spec.NodeTemplateSpec.Labels["work"] = name }))
		}
	}
}

// applied reports whether the Machines of every pool have its timeouts, and every
// Node the labels and taints that are asked for.
func (u *upgrade) applied(ctx context.Context) error {
	var deployments machinev1.MachineDeploymentList
	if err := u.Client.List(ctx, &deployments); err != nil {
		return err
	}
	templates := map[string]machinev1.MachineSpec{}
	for i := range deployments.Items {
		templates[deployments.Items[i].Name] = deployments.Items[i].Spec.Template.Spec
	}
	machines, err := u.Machines(ctx, "")
	if err != nil {
		return err
	}
	for i := range machines {
		m := &machines[i]
		want := m.Spec
		if template, pooled := templates[m.Labels[machinev1.NameLabel]]; pooled {
			want = template
		}
		if !reflect.DeepEqual(m.Spec.MachineConfiguration, want.MachineConfiguration) {
			return fmt.Errorf("machine %s has not got the timeouts of its pool", m.Name)
		}
		if err := u.nodeHas(ctx, m.Labels[machinev1.NodeLabel], want.NodeTemplateSpec); err != nil {
			return err
		}
	}
	return nil
}

func (u *upgrade) nodeHas(ctx context.Context, name string, want machinev1.NodeTemplateSpec) error {
	node := &corev1.Node{}
	if err := u.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return err
	}
	for key, value := range want.Labels {
		if node.Labels[key] != value {
			return fmt.Errorf("node %s has label %s=%q, want %q", name, key, node.Labels[key], value)
		}
	}
	for _, taint := range want.Spec.Taints {
		if !slices.Contains(node.Spec.Taints, taint) {
			return fmt.Errorf("node %s has not got taint %s", name, taint.Key)
		}
	}
	return nil
}

// picture is who is there, and everything that ever was in the cloud.
type picture struct {
	objects map[kind]map[string]identity // by name
	cloud   map[string]sim.Resource      // by id
}

// identity is what another object of the same name would not have.
type identity struct {
	uid      types.UID
	ownedBy  string // UIDs
	vm       string // providerID
	revision string
	leaving  bool
}

// judged are the kinds of which nothing comes or goes by itself: all but Secrets.
func judged() []kind {
	return slices.DeleteFunc(kinds(), func(k kind) bool { return k.Kind == "Secret" })
}

func (u *upgrade) picture() picture {
	u.Helper()
	p := picture{objects: map[kind]map[string]identity{}, cloud: map[string]sim.Resource{}}
	for _, k := range judged() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(k.GroupVersionKind)
		u.must(u.Client.List(u.Context(), list))
		p.objects[k] = map[string]identity{}
		for _, o := range list.Items {
			vm, _, _ := unstructured.NestedString(o.Object, "spec", "providerID")
			owners := ""
			for _, owner := range o.GetOwnerReferences() {
				owners += string(owner.UID) + " "
			}
			p.objects[k][o.GetName()] = identity{
				uid: o.GetUID(), ownedBy: owners, vm: vm, revision: o.GetAnnotations()[machinev1.RevisionAnnotation],
				leaving: o.GetDeletionTimestamp() != nil,
			}
		}
	}
	resources, err := u.Cloud.Ledger(u.Context(), "")
	u.must(err)
	for _, r := range resources {
		p.cloud[r.ID] = r
	}
	return p
}

// pools is how many MachineDeployments there are.
func (u *upgrade) pools(p picture) int {
	return len(p.objects[kind{
		machinev1.GroupVersion.WithKind(machinev1.MachineDeploymentKind), "machinedeployments",
		true,
	}])
}

// added is how many more of a kind there are after work.
func (u *upgrade) added(k kind, pools int) int {
	switch {
	case k.Kind == "Node":
		return pools + 1
	case k.GroupVersion() == machinev1.GroupVersion && k.Kind == machinev1.MachineKind:
		return pools
	case k.Kind == "Machine", k.Kind == "MCMMachine", k.Kind == "MCMConfig":
		return 1
	}
	return 0
}

// nothingReplaced compares what was there with what is, one machine a pool and
// one worker later.
func (u *upgrade) nothingReplaced(before, after picture, pools int) {
	u.Helper()
	for _, k := range judged() {
		was, is := before.objects[k], after.objects[k]
		if len(was) == 0 {
			u.Errorf("the record has no %s", k.Kind)
		}
		for _, name := range slices.Sorted(maps.Keys(was)) {
			if is[name] != was[name] {
				u.Errorf("%s %s was %+v and is %+v", k.GroupKind(), name, was[name], is[name])
			}
		}
		if got, want := len(is)-len(was), u.added(k, pools); got != want {
			u.Errorf("%d more of %s than before, want %d", got, k.GroupKind(), want)
		}
	}
	more := pools + 1
	vms := 0
	for id, now := range after.cloud {
		was, known := before.cloud[id]
		switch {
		case known && !reflect.DeepEqual(now, was):
			u.Errorf("%s %s in the cloud was %+v and is %+v", now.Kind, id, was, now)
		case !known && now.Kind == sim.KindVM && id != u.stray:
			vms++
			if !now.Deleting.IsZero() {
				u.Errorf("VM %s was made and deleted", id)
			}
		}
	}
	if vms != more || after.cloud[u.stray].Deleting.IsZero() {
		u.Errorf("%d VMs were made, want %d; the orphan is %+v", vms, more, after.cloud[u.stray])
	}
}

// nothingAsked reads what the manager has asked the API server for: what it made
// and took back at once is in no picture.
func (u *upgrade) nothingAsked(from audit.Mark, more int) {
	u.Helper()
	to, err := u.Cluster.Mark(u.Context())
	u.must(err)
	entries, err := u.Cluster.Audit().Between(from, to, audit.User(stack.ManagerUser),
		audit.Verb("create", "delete", "deletecollection"),
		audit.Resource("machinedeployments", "machinesets", "machines", "nodes", "clusters", "mcmclusters", "mcmmachines",
			"mcmconfigs"))
	u.must(err)
	made := 0
	for _, e := range entries {
		if e.Verb != "create" || e.Resource != "machines" || e.Group != machinev1.GroupVersion.Group {
			u.Errorf("the manager asked to %s %s %s", e.Verb, e.Resource, e.Name)
			continue
		}
		if e.Code == http.StatusCreated {
			made++
		}
	}
	if made != more {
		u.Errorf("the manager asked for %d new Machines, want %d", made, more)
	}
}
