package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// secretPermissions are what each role may do with Secrets, by bundle and role. docs/security.md
// says why.
func secretPermissions() map[string]map[string]string {
	native := map[string]string{
		"machine-controller-manager-control": "get,list,patch,watch",
		"machine-controller-manager-tokens":  "create,delete,get",
	}
	return map[string]map[string]string{
		"infrastructure": {"capmcm-manager": "get,list,patch,watch"},
		"bootstrap":      {"capmcm-bootstrap-manager": "create,get,list,patch,watch"},
		"controlplane": {
			"capmcm-control-plane-manager": "create,get,list,patch,watch",
			"capmcm-workload-tokens":       "create,delete,get,patch,update",
		},
		"runtime-extension": {"capmcm-runtime-extension-manager": "get"},
		"native":            native, "native-bundle": native,
	}
}

// TestBundlesAreHardened: what every bundle may and how its pods run.
func TestBundlesAreHardened(t *testing.T) {
	t.Parallel()
	out := written(t)
	for _, b := range bundles() {
		t.Run(b.config, func(t *testing.T) {
			t.Parallel()
			all := objects(t, filepath.Join(out, b.label, "v0.1.7", b.file))
			checkPermissions(t, b.config, rolesIn(t, all))
			checkReader(t, b.config, all)
			if strings.HasPrefix(b.config, "self-hosted/") || b.config == "target-cluster" || b.config == "simcloud" ||
				b.config == monitoring {
				return // permissions only, a cloud to try things with, and objects for Prometheus
			}
			deployments := of[appsv1.Deployment](t, all, "Deployment")
			if len(deployments) != 1 {
				t.Fatalf("%d Deployments, want 1", len(deployments))
			}
			checkPod(t, deployments[0])
			checkAround(t, all, deployments[0])
			checkReached(t, b, all, deployments[0])
			if args := deployments[0].Spec.Template.Spec.Containers[0].Args; b.provider != "" &&
				!slices.Contains(args, "--insecure-diagnostics=${MCM_INSECURE_DIAGNOSTICS:=false}") {
				t.Errorf("metrics are served without authentication: %v", args)
			}
		})
	}
}

// role is a Role or a ClusterRole.
type role struct {
	name  string
	rules []rbacv1.PolicyRule
}

func rolesIn(t *testing.T, all []*unstructured.Unstructured) []role {
	t.Helper()
	var found []role
	for _, r := range of[rbacv1.Role](t, all, "Role") {
		found = append(found, role{r.Name, r.Rules})
	}
	for _, r := range of[rbacv1.ClusterRole](t, all, "ClusterRole") {
		found = append(found, role{r.Name, r.Rules})
	}
	return found
}

// checkReader: who installs the native API or the infrastructure provider has the role for the verbs
// of kubectl mcm that only read. It grants that, reads no Secret, and no user has it before it is bound.
func checkReader(t *testing.T, config string, all []*unstructured.Unstructured) {
	t.Helper()
	const reader = "kubectl-mcm-reader"
	found := 0
	for _, r := range of[rbacv1.ClusterRole](t, all, "ClusterRole") {
		if !strings.HasSuffix(r.Name, reader) {
			continue
		}
		found++
		for _, rule := range r.Rules {
			if slices.Contains(rule.Resources, "secrets") || !slices.Equal(rule.Verbs, []string{"get", "list", "watch"}) {
				t.Errorf("%s may more than read, or reads Secrets: %v", r.Name, rule)
			}
		}
		if strings.Contains(fmt.Sprint(r.Labels), "aggregate-to") {
			t.Errorf("%s is aggregated: readers of a namespace would read Nodes", r.Name)
		}
	}
	if want := map[string]int{"native": 1, "native-bundle": 1, "infrastructure": 1}[config]; found != want {
		t.Errorf("%d ClusterRoles %s, want %d", found, reader, want)
	}
	for _, b := range of[rbacv1.ClusterRoleBinding](t, all, "ClusterRoleBinding") {
		if strings.HasSuffix(b.RoleRef.Name, reader) {
			t.Errorf("%s binds the role", b.Name)
		}
	}
}

// checkPermissions: no role has a wildcard, nor permissions to Secrets that were not decided, nor
// permissions by which it could get more.
func checkPermissions(t *testing.T, config string, roles []role) {
	t.Helper()
	secrets := map[string]string{}
	for _, r := range roles {
		var verbs []string
		for _, rule := range r.rules {
			if named := slices.Concat(rule.Verbs, rule.Resources, rule.APIGroups,
				rule.NonResourceURLs); strings.Contains(strings.Join(named, " "), "*") {
				t.Errorf("%s has a wildcard: %v", r.name, rule)
			}
			if slices.Contains(rule.Resources, "secrets") {
				verbs = append(verbs, rule.Verbs...)
			}
			checkNoMore(t, config, r.name, rule)
		}
		if len(verbs) > 0 {
			secrets[r.name] = strings.Join(slices.Sorted(slices.Values(verbs)), ",")
		}
	}
	want := secretPermissions()[config]
	if len(want)+len(secrets) > 0 && !maps.Equal(want, secrets) {
		t.Errorf("permissions to Secrets (-want +got):\n%s", cmp.Diff(want, secrets))
	}
}

// checkNoMore: permissions by which a process gets those of others are opt-in, and never those
// to act as any user or to give away more than it has.
func checkNoMore(t *testing.T, config, name string, rule rbacv1.PolicyRule) {
	t.Helper()
	optIn := strings.HasPrefix(config, "self-hosted/")
	for _, verb := range rule.Verbs {
		if verb == "escalate" || verb == "impersonate" || verb == "bind" && (!optIn || len(rule.ResourceNames) == 0) {
			t.Errorf("%s may %s %v", name, verb, rule.Resources)
		}
	}
	for _, resource := range rule.Resources {
		if !optIn && (resource == "serviceaccounts/token" || resource == "pods/exec" ||
			slices.Contains(rule.APIGroups, rbacv1.GroupName)) {
			t.Errorf("%s has permissions to %s", name, resource)
		}
	}
}

// checkPod: the pods run as Pod Security's level restricted asks for, with a read-only file
// system, and use no more than they are given.
func checkPod(t *testing.T, d appsv1.Deployment) {
	t.Helper()
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	limits, requests := c.Resources.Limits, c.Resources.Requests
	for what, right := range map[string]bool{
		"two replicas": d.Spec.Replicas != nil && *d.Spec.Replicas >= 2,
		"not root":     pod.SecurityContext != nil && isTrue(pod.SecurityContext.RunAsNonRoot),
		"seccomp": pod.SecurityContext != nil && pod.SecurityContext.SeccompProfile != nil &&
			pod.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"read-only file system": c.SecurityContext != nil && isTrue(c.SecurityContext.ReadOnlyRootFilesystem),
		"no privilege escalation": c.SecurityContext != nil && c.SecurityContext.AllowPrivilegeEscalation != nil &&
			!*c.SecurityContext.AllowPrivilegeEscalation,
		"no capabilities": c.SecurityContext != nil && c.SecurityContext.Capabilities != nil &&
			slices.Equal(c.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}),
		"one container": len(pod.Containers) == 1 && len(pod.InitContainers) == 0,
		"not the host's": !pod.HostNetwork && !pod.HostPID && !pod.HostIPC &&
			!slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil }),
		"requests":     !requests.Cpu().IsZero() && !requests.Memory().IsZero(),
		"memory limit": !limits.Memory().IsZero(),
	} {
		if !right {
			t.Errorf("Deployment %s: %s is missing", d.Name, what)
		}
	}
	for _, s := range pod.TopologySpreadConstraints {
		checkSelects(t, "its spread", s.LabelSelector, d)
	}
	if len(pod.TopologySpreadConstraints) == 0 {
		t.Errorf("Deployment %s is not spread", d.Name)
	}
}

// checkAround: a disruption budget, a network policy and the level of its namespace are
// about the pods.
func checkAround(t *testing.T, all []*unstructured.Unstructured, d appsv1.Deployment) {
	t.Helper()
	budgets := of[policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget")
	policies := of[networkingv1.NetworkPolicy](t, all, "NetworkPolicy")
	if len(budgets) != 1 || len(policies) != 1 {
		t.Fatalf("%d disruption budgets and %d network policies, want one each", len(budgets), len(policies))
	}
	checkSelects(t, "its disruption budget", budgets[0].Spec.Selector, d)
	checkSelects(t, "its network policy", &policies[0].Spec.PodSelector, d)
	ports := map[string]bool{}
	for _, p := range d.Spec.Template.Spec.Containers[0].Ports {
		ports[p.Name] = true
	}
	for _, in := range policies[0].Spec.Ingress {
		for _, p := range in.Ports {
			if p.Port == nil || !ports[p.Port.StrVal] {
				t.Errorf("the network policy opens port %v, which the pods do not have", p.Port)
			}
		}
		if len(in.Ports) == 0 {
			t.Error("the network policy opens all ports")
		}
	}
	checkAdmitted(t, all, d)
	for _, n := range of[corev1.Namespace](t, all, "Namespace") {
		if n.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
			t.Errorf("Namespace %s does not enforce the level restricted", n.Name)
		}
	}
}

// checkAdmitted: a quota is about the priority of the pods. GKE admits none of that priority outside of
// kube-system without one.
func checkAdmitted(t *testing.T, all []*unstructured.Unstructured, d appsv1.Deployment) {
	t.Helper()
	class := d.Spec.Template.Spec.PriorityClassName
	admits := func(q corev1.ResourceQuota) bool {
		return q.Namespace == d.Namespace && q.Spec.ScopeSelector != nil &&
			slices.ContainsFunc(q.Spec.ScopeSelector.MatchExpressions, func(e corev1.ScopedResourceSelectorRequirement) bool {
				return e.ScopeName == corev1.ResourceQuotaScopePriorityClass && slices.Contains(e.Values, class)
			})
	}
	if quotas := of[corev1.ResourceQuota](t, all, "ResourceQuota"); class != "" && !slices.ContainsFunc(quotas, admits) {
		t.Errorf("Deployment %s: no ResourceQuota is about priority class %s", d.Name, class)
	}
}

// checkReached: the Services and the network policy of a provider lead to ports that its
// process listens on, and both to the one that has the metrics where these are for everybody.
func checkReached(t *testing.T, b bundle, all []*unstructured.Unstructured, d appsv1.Deployment) {
	t.Helper()
	c := d.Spec.Template.Spec.Containers[0]
	address := slices.IndexFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "--diagnostics-address=") })
	if b.provider == "" || address < 0 {
		return
	}
	policy := of[networkingv1.NetworkPolicy](t, all, "NetworkPolicy")[0]
	for name, number := range map[string]int32{"diagnostics": 8443, "health": 10258} {
		port := slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool {
			return p.Name == name && p.ContainerPort == number
		})
		admitted := slices.ContainsFunc(policy.Spec.Ingress[0].Ports, func(p networkingv1.NetworkPolicyPort) bool {
			return p.Port.StrVal == name
		})
		served := slices.ContainsFunc(of[corev1.Service](t, all, "Service"), func(s corev1.Service) bool {
			return slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.TargetPort.StrVal == name })
		})
		if !port || !admitted || !served {
			t.Errorf("port %s: container %t, network policy %t, Service %t", name, port, admitted, served)
		}
	}
	if c.Args[address] != "--diagnostics-address=:8443" {
		t.Errorf("%s: the container's port is 8443", c.Args[address])
	}
}

// checkSelects: a selector is not empty and selects the pods of a Deployment.
func checkSelects(t *testing.T, what string, s *metav1.LabelSelector, d appsv1.Deployment) {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil || selector.Empty() || !selector.Matches(labels.Set(d.Spec.Template.Labels)) {
		t.Errorf("Deployment %s: %s selects %s: %v", d.Name, what, fmt.Sprint(s), err)
	}
}

func isTrue(b *bool) bool { return b != nil && *b }
