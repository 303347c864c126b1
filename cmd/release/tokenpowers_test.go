package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// TestTokenPowers: docs/security.md names every right of a role by which a subject comes to act as another
// one, whatever bundle or file has the role.
func TestTokenPowers(t *testing.T) {
	t.Parallel()
	out := written(t)
	got := map[string]bool{}
	add := func(roles []role) {
		for _, r := range roles {
			if powers := tokenPowers(r.rules); powers != "" {
				got[r.name+" | "+powers] = true
			}
		}
	}
	for _, b := range bundles() {
		add(rolesIn(t, objects(t, filepath.Join(out, b.label, "v0.1.7", b.file))))
	}
	add(rolesIn(t, objects(t, filepath.Join("..", "..", "config", "rbac")))) // also what no bundle has
	if diff := cmp.Diff(slices.Sorted(maps.Keys(got)), documentedPowers(t)); diff != "" {
		t.Errorf("docs/security.md, tokens of other accounts (-roles +page):\n%s", diff)
	}
}

// TestSecretPolicies: each bundle has policies that refuse what they do not allow, wherever it is installed, and
// differ only in their accounts and types, which docs/security.md has.
func TestSecretPolicies(t *testing.T) {
	t.Parallel()
	out := written(t)
	const types = "secret-types"
	got := map[string]string{}
	var first *admissionv1.ValidatingAdmissionPolicySpec
	for _, b := range bundles() {
		all := objects(t, filepath.Join(out, b.label, "v0.1.7", b.file))
		bound := map[string]bool{}
		for _, o := range of[admissionv1.ValidatingAdmissionPolicyBinding](t, all, "ValidatingAdmissionPolicyBinding") {
			bound[o.Spec.PolicyName] = o.Namespace == "" && o.Spec.MatchResources == nil &&
				slices.Equal(o.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny})
		}
		policies := of[admissionv1.ValidatingAdmissionPolicy](t, all, "ValidatingAdmissionPolicy")
		if len(policies) == 0 && b.config != "self-hosted/namespace" && b.config != "simcloud" && b.config != monitoring {
			t.Errorf("%s has no policy", b.file)
		}
		for _, p := range policies {
			if !bound[p.Name] || p.Namespace != "" || p.Spec.FailurePolicy == nil || *p.Spec.FailurePolicy != admissionv1.Fail {
				t.Errorf("%s: policy %s has no binding that denies, does not fail closed, or has a namespace", b.file, p.Name)
			}
			if !strings.HasSuffix(p.Name, types) {
				continue
			}
			got[p.Name] = p.Spec.MatchConditions[0].Expression + " " + p.Spec.Variables[0].Expression
			rest := p.Spec.DeepCopy()
			rest.MatchConditions, rest.Variables = nil, nil
			if first == nil {
				first = rest
			}
			if diff := cmp.Diff(first, rest); diff != "" {
				t.Errorf("%s: policy %s differs from the others:\n%s", b.file, p.Name, diff)
			}
		}
	}
	checkDocumentedPolicies(t, got)
}

// checkDocumentedPolicies compares policies, by name their expressions for accounts and types, with the page.
func checkDocumentedPolicies(t *testing.T, policies map[string]string) {
	t.Helper()
	words := regexp.MustCompile("`([^`]+)`")
	for _, cells := range tableOf(t, "| policy | accounts | types that they create |") {
		name := words.FindStringSubmatch(cells[0])[1]
		for _, cell := range cells[1:] {
			for _, word := range words.FindAllStringSubmatch(cell, -1) {
				account, _, _ := strings.Cut(word[1], "<") // a part that is not known before
				if !strings.Contains(policies[name], account) {
					t.Errorf("docs/security.md: policy %s is not about %s: %s", name, word[1], policies[name])
				}
			}
		}
		if want := strings.Count(cells[2], "`") / 2; strings.Count(policies[name], "/") != want {
			t.Errorf("docs/security.md: policy %s has not %d types: %s", name, want, policies[name])
		}
		delete(policies, name)
	}
	if len(policies) > 0 {
		t.Errorf("docs/security.md has not %v", policies)
	}
}

// documentedPowers are the first two columns of the page's table, sorted.
func documentedPowers(t *testing.T) []string {
	t.Helper()
	var rows []string
	for _, cells := range tableOf(t, "| role | right | what it gives | what limits it |") {
		rows = append(rows, strings.ReplaceAll(cells[0]+" | "+cells[1], "`", ""))
	}
	slices.Sort(rows)
	return rows
}

// tableOf are the cells of a table of docs/security.md, by its heading.
func tableOf(t *testing.T, heading string) [][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n"+heading+"\n")
	if !found {
		t.Fatalf("docs/security.md has no table %s", heading)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	var rows [][]string
	for _, line := range strings.Split(table, "\n")[1:] {
		rows = append(rows, strings.Split(strings.Trim(line, "| "), " | "))
	}
	return rows
}

// tokenPowers are the rights among rules by which a subject comes to act as another one: resources with their
// verbs, both sorted. Empty: none.
func tokenPowers(rules []rbacv1.PolicyRule) string {
	verbs := map[string][]string{}
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				if givesTokens(rule.APIGroups, resource, verb) && !slices.Contains(verbs[resource], verb) {
					verbs[resource] = append(verbs[resource], verb)
				}
			}
		}
	}
	var parts []string
	for _, resource := range slices.Sorted(maps.Keys(verbs)) {
		slices.Sort(verbs[resource])
		parts = append(parts, resource+": "+strings.Join(verbs[resource], ", "))
	}
	return strings.Join(parts, "; ")
}

// givesTokens reports whether a right is one to read credentials, to have some made, to run as another account,
// to be given more rights, or to remove what limits all that.
func givesTokens(groups []string, resource, verb string) bool {
	write := verb == "create" || verb == "update" || verb == "patch"
	switch {
	case verb == "*", verb == "impersonate", verb == "escalate", verb == "bind", verb == "approve", verb == "sign":
		return true
	case resource == "*" || resource == "secrets":
		return true
	case slices.Contains(groups, admissionv1.GroupName):
		return write || strings.HasPrefix(verb, "delete")
	case slices.Contains(groups, rbacv1.GroupName), slices.Contains(groups, appsv1.GroupName),
		slices.Contains(groups, "batch"):
		return write
	}
	return write && slices.Contains([]string{
		"serviceaccounts", "serviceaccounts/token", "pods", "pods/exec", "pods/attach", "pods/ephemeralcontainers",
		"replicationcontrollers", "certificatesigningrequests/approval", "certificatesigningrequests/status",
	}, resource)
}
