package integration

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// mishapCaptures runs the verbs for machines that did not join, and for VMs whose machines were lost.
// The namespace is its own, since its manager stops in between.
func mishapCaptures(r *reader) {
	r.move()
	r.dir = r.TempDir() // for the bundle
	m := r.watchful()
	r.classNamed("small")
	r.classNamed("workers", r.trustsOther)
	r.unjoined()
	r.capture("console", "console machinedeployment workers")
	small := *r.env
	small.name = "small"
	d := small.pool(backedUp)
	r.eventually("the pool is healthy", func(ctx context.Context) error {
		if text, _ := r.mcm(ctx, "tree"); !settled.MatchString(text) {
			return fmt.Errorf("it is\n%s", text)
		}
		return nil
	})
	r.capture("support-bundle", "support-bundle")
	small.lose(m, d)
	r.watchful()
	r.eventually("the collector lists the VMs", func(ctx context.Context) error {
		return small.listed(ctx, grown-backedUp)
	})
	r.capture("orphans", "orphans list")
	admin := *r // who recovers machines may create them
	admin.kubeconfig = r.Cluster.Kubeconfig()
	admin.capture("recover", "recover plan")
}

// backedUp is how many machines a backup has, and grown how many there were when it was
// restored. What is between counts as many, so that the collector waits for a person.
const backedUp, grown = 2, 6

// watchful starts a manager that soon looks for orphans.
func (r *reader) watchful() *stack.Manager {
	r.Helper()
	m, err := r.StartManager("--namespace="+r.namespace, "--machine-safety-orphan-vms-period=3s")
	r.Expect(err).NotTo(HaveOccurred())
	return m
}

// trustsOther gives the boot data of a class the CA of another server.
func (r *reader) trustsOther(_ *machinev1.MachineClass, secret *corev1.Secret) {
	other := httptest.NewTLSServer(nil)
	defer other.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate().Raw})
	data := strings.ReplaceAll(string(secret.Data[machinev1.UserDataKey]),
		base64.StdEncoding.EncodeToString(r.Cluster.CA()), base64.StdEncoding.EncodeToString(ca))
	secret.Data[machinev1.UserDataKey] = []byte(data)
}

// unjoined has a machine fail whose node cannot join, and gives the reader the right to what the
// manager keeps of its console. The machine is preserved, so that no other follows it.
func (r *reader) unjoined() {
	r.Helper()
	workers := *r.env
	workers.name = "workers"
	d := workers.pool(1, func(d *machinev1.MachineDeployment) {
		d.Spec.Template.Annotations = map[string]string{machinev1.PreserveAnnotation: machinev1.PreserveWhenFailed}
	})
	r.eventually("the console has the cause", workers.complains)
	r.Expect(r.Edit(r.Context(), d, func() {
		d.Spec.Template.Spec.MachineConfiguration = &machinev1.MachineConfiguration{MachineCreationTimeout: seconds(1)}
	})).To(Succeed())
	kept := &corev1.SecretList{}
	r.eventually("the console is kept", func(ctx context.Context) error {
		err := r.Client.List(ctx, kept, client.InNamespace(r.namespace),
			client.MatchingFields{"type": string(machinev1.ConsoleEvidenceType)})
		if err == nil && len(kept.Items) != 1 {
			err = fmt.Errorf("there are %d Secrets", len(kept.Items))
		}
		return err
	})
	r.mayGet(kept.Items[0].Name)
	r.eventually("the reader has the right", func(ctx context.Context) error {
		if text, code := r.mcm(ctx, "console", "machinedeployment", d.Name); code != 0 {
			return fmt.Errorf("exit code %d: %s", code, text)
		}
		return nil
	})
}

// complains returns an error unless the only VM of the env has written twice why it does not join.
func (s *env) complains(ctx context.Context) error {
	all, err := s.list(ctx)
	switch {
	case err != nil:
		return err
	case len(all) != 1 || all[0].Spec.ProviderID == "":
		return fmt.Errorf("%d machines, want one with a VM", len(all))
	}
	lines, err := s.Cloud.Console(ctx, vmID(&all[0]))
	if err == nil && strings.Count(fmt.Sprint(lines), "x509") < 2 {
		err = fmt.Errorf("it has %v", lines)
	}
	return err
}

// mayGet gives the reader the right to one Secret, as docs/kubectl-mcm.md says.
func (r *reader) mayGet(secret string) {
	r.Helper()
	role := &rbacv1.Role{ObjectMeta: r.meta("console-readers"), Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secret},
		Verbs: []string{"get"},
	}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: r.meta(role.Name),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "reader"}},
	}
	r.Expect(r.Client.Create(r.Context(), role)).To(Succeed())
	r.Expect(r.Client.Create(r.Context(), binding)).To(Succeed())
}

// lose scales a pool of the env, stops its manager, and takes the objects back to what they were.
func (s *env) lose(m *stack.Manager, d *machinev1.MachineDeployment) {
	s.Helper()
	kept := uids(s.running(backedUp))
	set := s.sets()[0] // by name: that of small comes before that of workers
	ordinals := set.Annotations[machinev1.OrdinalsAnnotation]
	s.Expect(s.Edit(s.Context(), d, func() { d.Spec.Replicas = grown })).To(Succeed())
	all := s.running(grown)
	s.Expect(m.Terminate()).To(Succeed())
	s.restore(d, &set, ordinals, backedUp, all, kept)
}
