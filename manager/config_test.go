package manager

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers"
)

// rendered returns what kubectl apply -k config/native applies.
func rendered(t *testing.T) []runtime.Object {
	t.Helper()
	if testing.Short() {
		t.Skip("building kustomize takes a while: not with -short")
	}
	build := exec.CommandContext(t.Context(), "go", "tool", "-modfile=go.tools.mod", "kustomize", "build", "config/native")
	build.Dir = ".."
	var problems bytes.Buffer
	build.Stderr = &problems
	out, err := build.Output()
	if err != nil {
		t.Fatalf("kustomize build config/native: %v\n%s", err, problems.String())
	}
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(out)))
	var objects []runtime.Object
	for {
		buffer := make([]byte, len(out))
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := decoder.Decode(buffer[:n], nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, buffer[:n])
		}
		objects = append(objects, object)
	}
}

// each calls check with every rendered object of a type.
func each[T runtime.Object](objects []runtime.Object, check func(o T)) int {
	n := 0
	for _, o := range objects {
		if typed, ok := o.(T); ok {
			n++
			check(typed)
		}
	}
	return n
}

func TestRenderedManifests(t *testing.T) {
	t.Parallel()
	objects := rendered(t)
	if n := each(objects, func(*apiextensionsv1.CustomResourceDefinition) {}); n != 4 {
		t.Errorf("%d CRDs, want four", n)
	}
	accounts := map[string]bool{}
	each(objects, func(a *corev1.ServiceAccount) { accounts[a.Namespace+"/"+a.Name] = true })
	roles := map[string]bool{}
	each(objects, func(r *rbacv1.ClusterRole) { roles[r.Name] = true })
	each(objects, func(r *rbacv1.Role) { roles[r.Name] = true })
	bound := func(name, role string, subjects []rbacv1.Subject) {
		if !roles[role] {
			t.Errorf("binding %s grants role %s, which is not there", name, role)
		}
		for _, s := range subjects {
			if !accounts[s.Namespace+"/"+s.Name] {
				t.Errorf("binding %s is for %s/%s, which is not there", name, s.Namespace, s.Name)
			}
		}
	}
	each(objects, func(b *rbacv1.ClusterRoleBinding) { bound(b.Name, b.RoleRef.Name, b.Subjects) })
	each(objects, func(b *rbacv1.RoleBinding) { bound(b.Name, b.RoleRef.Name, b.Subjects) })
	if n := each(objects, func(d *appsv1.Deployment) { checkDeployment(t, d, accounts) }); n != 1 {
		t.Errorf("%d Deployments, want one", n)
	}
	each(objects, func(b *policyv1.PodDisruptionBudget) {
		each(objects, func(d *appsv1.Deployment) {
			for k, v := range b.Spec.Selector.MatchLabels {
				if d.Spec.Template.Labels[k] != v {
					t.Errorf("the disruption budget does not select the Deployment's pods")
				}
			}
		})
	})
}

func checkDeployment(t *testing.T, d *appsv1.Deployment, accounts map[string]bool) {
	t.Helper()
	pod := d.Spec.Template.Spec
	if d.Name != "machine-controller-manager" {
		t.Errorf("the Deployment is named %s; Gardener's autoscaler looks for machine-controller-manager", d.Name)
	}
	if !accounts[d.Namespace+"/"+pod.ServiceAccountName] {
		t.Errorf("the Deployment runs as %s, which is not there", pod.ServiceAccountName)
	}
	o, err := parse(pod.Containers[0].Args...)
	if err != nil {
		t.Fatalf("the manager does not take the Deployment's arguments: %v", err)
	}
	which, err := controllers.Select(o.controllers, func(controllers.Kind) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	native, err := controllers.Select([]string{"*"}, func(k controllers.Kind) bool {
		return k.Version == machinev1.GroupVersion
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(which, native) {
		t.Errorf("where all kinds are served the Deployment runs %v; it has permissions for %v only", which, native)
	}
	ports := map[int32]bool{}
	for _, p := range pod.Containers[0].Ports {
		ports[p.ContainerPort] = true
	}
	if !ports[int32(o.server.port)] || !ports[int32(o.server.machineControllerPort)] {
		t.Errorf("the Deployment has the ports %v, the manager listens on %d and %d", ports, o.server.port,
			o.server.machineControllerPort)
	}
	if grace := *pod.TerminationGracePeriodSeconds; float64(grace) <= o.gracefulShutdown.Seconds() {
		t.Errorf("the pod is killed after %ds, while reconciles may take %s to finish", grace, o.gracefulShutdown)
	}
	security := pod.Containers[0].SecurityContext
	if !*pod.SecurityContext.RunAsNonRoot || !*security.ReadOnlyRootFilesystem || *security.AllowPrivilegeEscalation {
		t.Error("the pod has permissions that it does not need")
	}
}

// TestPermissions holds the roles to what MCM has at most: see the deployment contract
// of Gardener; beyond that, to looking for the owners of VMs on the other API.
func TestPermissions(t *testing.T) {
	t.Parallel()
	objects := rendered(t)
	// allowed are the verbs on a resource, at most.
	all := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	allowed := map[string][]string{
		"machine.sapcloud.io/machines": all, "machine.sapcloud.io/machinesets": all,
		"machine.sapcloud.io/machinedeployments": all,
		"machine.sapcloud.io/machineclasses":     all, "machine.sapcloud.io/machines/status": all,
		"machine.sapcloud.io/machinesets/status":        all,
		"machine.sapcloud.io/machinedeployments/status": all, "machine.sapcloud.io/machinesets/finalizers": all,
		"machine.sapcloud.io/machinedeployments/finalizers": all,
		"/secrets": all, "/events": all, "/nodes": all, "/nodes/status": all, "/pods": all, "/pods/eviction": {"create"},
		"/persistentvolumes": all, "/persistentvolumeclaims": all, "policy/poddisruptionbudgets": {"list", "watch"},
		"storage.k8s.io/volumeattachments":            {"get", "list", "watch", "delete"},
		"coordination.k8s.io/leases":                  {"create", "get", "watch", "update"},
		"kube-system:/secrets":                        {"create", "delete", "get", "list"},
		"infrastructure.cluster.x-k8s.io/mcmmachines": {"get", "list", "watch"},
		"infrastructure.cluster.x-k8s.io/mcmclusters": {"get", "list", "watch"},
		"cluster.x-k8s.io/clusters":                   {"get", "list", "watch"},
	}
	check := func(name, scope string, rules []rbacv1.PolicyRule) {
		if name == "kubectl-mcm-reader" {
			return // a person's
		}
		for _, r := range rules {
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					for _, verb := range r.Verbs {
						if !slices.Contains(allowed[scope+group+"/"+resource], verb) {
							t.Errorf("role %s grants %s on %s/%s, which MCM does not have", name, verb, group, resource)
						}
					}
				}
			}
			if slices.Contains(r.Resources, "leases") && len(r.ResourceNames) != 2 &&
				!slices.Equal(r.Verbs, []string{"create"}) {
				t.Errorf("role %s grants %v on every lease, want only the two of MCM", name, r.Verbs)
			}
		}
	}
	each(objects, func(r *rbacv1.ClusterRole) { check(r.Name, "", r.Rules) })
	each(objects, func(r *rbacv1.Role) {
		scope := ""
		if r.Namespace == "kube-system" {
			scope = "kube-system:"
		}
		check(r.Name, scope, r.Rules)
	})
}
