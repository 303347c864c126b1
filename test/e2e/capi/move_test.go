package capi

import (
	"context"
	"fmt"
	"testing"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lives are all VMs that there ever were, and whether they were asked to go.
func (p *pool) lives(ctx context.Context) (map[string]bool, error) {
	ledger, err := p.nodes.Cloud.Ledger(ctx, "vm")
	lives := map[string]bool{}
	for _, vm := range ledger {
		lives[vm.ID] = vm.Deleting.IsZero()
	}
	return lives, err
}

// move moves the Cluster to another management cluster. No VM is made or goes
// for it, and everything that a later change needs has come along.
func (p *pool) move(t *testing.T, to *management, workers int) *pool {
	t.Helper()
	to.namespace(t, p.namespace)
	before, err := p.lives(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.idle(t)
	p.ctl.must(t, nil, "move", "-n", p.namespace, "--kubeconfig", p.m.Cluster.Kubeconfig(), "--to-kubeconfig",
		to.Cluster.Kubeconfig())
	moved := *p
	moved.m = to
	moved.idled(t)
	moved.until(t, "the moved Cluster is available", moved.available)
	moved.until(t, "its workers are", moved.settled(workers))
	p.until(t, "nothing is left where it was", func(ctx context.Context) error {
		for _, list := range []client.ObjectList{
			&machinev1.MachineClassList{}, &infrav1.MCMMachineList{},
			&infrav1.MCMClusterList{}, &infrav1.MCMMachineTemplateList{},
		} {
			if err := p.m.cl.List(ctx, list, client.InNamespace(p.namespace)); err != nil {
				return err
			}
			if n := length(list); n > 0 {
				return fmt.Errorf("%d in %T", n, list)
			}
		}
		return nil
	})
	after, err := p.lives(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the move has touched VMs (-before +after):\n%s", diff)
	}
	return &moved
}

func length(list client.ObjectList) int {
	switch l := list.(type) {
	case *machinev1.MachineClassList:
		return len(l.Items)
	case *infrav1.MCMMachineList:
		return len(l.Items)
	case *infrav1.MCMClusterList:
		return len(l.Items)
	case *infrav1.MCMMachineTemplateList:
		return len(l.Items)
	}
	return 0
}

// idle makes what a pool boots from that has no machines yet: a template with a
// class of its own, and one with a Secret of its own.
func (p *pool) idle(t *testing.T) {
	t.Helper()
	class, credentials := p.nodes.Class(idleClass, "small")
	class.Namespace, credentials.Namespace, class.SecretRef.Namespace = p.namespace, p.namespace, p.namespace
	userData := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: idleSecret},
		Data:       map[string][]byte{machinev1.UserDataKey: []byte("#cloud-config")},
	}
	objects := []client.Object{credentials, class, userData}
	for _, spec := range []bootstrapv1.MCMConfigSpec{
		{MachineClassRef: &bootstrapv1.NameReference{Name: idleClass}},
		{UserDataSecretRef: &bootstrapv1.NameReference{Name: idleSecret}},
	} {
		template := &bootstrapv1.MCMConfigTemplate{ObjectMeta: metav1.ObjectMeta{
			Namespace:    p.namespace,
			GenerateName: "idle-",
		}}
		template.Spec.Template.Spec = spec
		objects = append(objects, template)
	}
	for _, o := range objects {
		if err := p.m.cl.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	p.until(t, "what a pool without machines boots from is marked", func(ctx context.Context) error {
		for _, o := range objects[:3] {
			if err := p.m.cl.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			if _, marked := o.GetLabels()[clusterctlv1.ClusterctlMoveLabel]; !marked {
				return fmt.Errorf("%T %s is not", o, o.GetName())
			}
		}
		return nil
	})
}

const (
	idleClass  = "idle-class"
	idleSecret = "idle-boot"
)

// idled: what idle made has come along.
func (p *pool) idled(t *testing.T) {
	t.Helper()
	for name, o := range map[string]client.Object{idleClass: &machinev1.MachineClass{}, idleSecret: &corev1.Secret{}} {
		if err := p.m.cl.Get(t.Context(), p.key(name), o); err != nil {
			t.Errorf("a pool without machines could not grow here: %v", err)
		}
	}
	if err := p.m.cl.Get(t.Context(), p.key(idleClass), &corev1.Secret{}); err != nil {
		t.Errorf("the class has come without its Secret: %v", err)
	}
}
