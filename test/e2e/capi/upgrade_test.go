package capi

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// The releases of ours that the repository has. Both are of this source: the
// first is made older by what makeOlder takes away.
const (
	oldRelease = "v0.1.0"
	newRelease = "v0.1.1"
)

const machineCRD = "mcmmachines.infrastructure.cluster.x-k8s.io"

// makeOlder takes the columns of MCMMachines out of a release, so that an upgrade
// from it has a CRD to change.
func (a assets) makeOlder(version string) error {
	path := filepath.Join(a.repository, "infrastructure-mcm", version, "infrastructure-components.yaml")
	objects, err := cluster.Read(path)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, o := range objects {
		if o.GetName() == machineCRD {
			versions, _, err := unstructured.NestedSlice(o.Object, "spec", "versions")
			if err != nil {
				return err
			}
			delete(versions[0].(map[string]any), "additionalPrinterColumns")
			if err := unstructured.SetNestedSlice(o.Object, versions, "spec", "versions"); err != nil {
				return err
			}
		}
		one, err := yaml.Marshal(o.Object)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "---\n%s", one)
	}
	return os.WriteFile(path, text.Bytes(), 0o600)
}

// installed is what tells the releases apart: what the inventory says, the image
// of each Deployment, and whether the CRD has the new release's columns.
func (m *management) installed(ctx context.Context) (map[string]string, error) {
	found := map[string]string{}
	var inventory clusterctlv1.ProviderList
	if err := m.cl.List(ctx, &inventory); err != nil {
		return nil, err
	}
	for _, p := range inventory.Items {
		found[p.Name] = p.Version
	}
	for _, p := range providers() {
		var d appsv1.Deployment
		if err := m.cl.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: p.deployment}, &d); err != nil {
			return nil, err
		}
		_, found[p.deployment], _ = strings.Cut(d.Spec.Template.Spec.Containers[0].Image, ":")
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := m.cl.Get(ctx, client.ObjectKey{Name: machineCRD}, &crd); err != nil {
		return nil, err
	}
	found[machineCRD] = oldRelease
	if len(crd.Spec.Versions[0].AdditionalPrinterColumns) > 0 {
		found[machineCRD] = newRelease
	}
	return found, nil
}

// all is what installed returns where everything of ours is of one release.
func all(release string) map[string]string {
	want := map[string]string{"cluster-api": core, machineCRD: release}
	for _, label := range []string{"infrastructure-mcm", "bootstrap-mcm", "control-plane-mcm"} {
		want[label] = release
	}
	for _, p := range providers() {
		want[p.deployment] = release
	}
	return want
}

// upgrade brings the providers to the next release with clusterctl, while a
// Cluster has workers. No VM is made or goes for it, no object of a machine is
// written, and the new managers go on where the old ones ended. No kubelet runs
// the Deployments here, so the test changes the processes: the old ones end before,
// as clusterctl scales their Deployments down, and those with the flags, and the
// new ServiceAccounts, of the new Deployments begin afterwards.
func (p *pool) upgrade(t *testing.T, workers int) {
	t.Helper()
	m := p.m
	m.is(t, oldRelease)
	vms, err := p.lives(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	specs := p.specs(t)
	for _, old := range m.providers {
		if err := old.Stop(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	m.providers = nil
	p.ctl.must(t, nil, "upgrade", "apply", "--kubeconfig", m.Cluster.Kubeconfig(),
		"--infrastructure", "mcm:"+newRelease, "--bootstrap", "mcm:"+newRelease, "--control-plane", "mcm:"+newRelease)
	m.is(t, newRelease)
	m.startProviders(t)
	p.until(t, "the Cluster is available after the upgrade", p.available)
	p.until(t, "its workers are as they were", p.settled(workers))
	after, err := p.lives(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(vms, after) {
		t.Errorf("the upgrade has touched VMs: %v became %v", vms, after)
	}
	if now := p.specs(t); !maps.Equal(specs, now) {
		t.Errorf("the upgrade has changed specs: generations %v became %v", specs, now)
	}
}

// is checks that everything of ours is of one release.
func (m *management) is(t *testing.T, release string) {
	t.Helper()
	found, err := m.installed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := all(release); !maps.Equal(found, want) {
		t.Errorf("installed is %v, want %v", found, want)
	}
}

// specs are the generations of the machines' objects, and of the Secrets that
// they booted from, by UID.
func (p *pool) specs(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	var machines infrav1.MCMMachineList
	var secrets corev1.SecretList
	for _, list := range []client.ObjectList{&machines, &secrets} {
		if err := p.m.cl.List(t.Context(), list, client.InNamespace(p.namespace)); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range machines.Items {
		found[string(m.UID)] = fmt.Sprint(m.Generation)
	}
	for _, s := range secrets.Items {
		if s.Data["format"] != nil {
			found[string(s.UID)] = string(s.Data["value"])
		}
	}
	return found
}
