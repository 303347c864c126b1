package capi

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A rule of the contract's pages, and the tests for it, or why there is none.
type rule struct {
	title string
	tests []string
	not   string
}

// pages are the contract's pages with their rules, in their order.
var pages = map[string][]rule{
	"infra-cluster.md": {
		{"All resources: scope", []string{"TestAllResourcesScope"}, ""},
		{"All resources: TypeMeta and ObjectMetafield", []string{"TestAllResourcesTypeMetaAndObjectMeta"}, ""},
		{"All resources: APIVersion field value", []string{"TestAllResourcesAPIVersion"}, ""},
		{"InfraCluster, InfraClusterList resource definition", []string{"TestInfraClusterResourceDefinition"}, ""},
		{"InfraCluster: control plane endpoint", []string{"TestInfraClusterControlPlaneEndpoint"}, ""},
		{"InfraCluster: failure domains", []string{
			"TestInfraClusterFailureDomains",
			"TestInfraClusterFailureDomainsAreAList",
		}, ""},
		{"InfraCluster: initialization completed", []string{"TestInfraClusterInitializationCompleted"}, ""},
		{"InfraCluster: conditions", []string{"TestInfraClusterConditions"}, ""},
		{"InfraCluster: terminal failures", []string{"TestInfraClusterTerminalFailures"}, ""},
		{
			"InfraClusterTemplate, InfraClusterTemplateList resource definition",
			[]string{"TestInfraClusterTemplateResourceDefinition"},
			"",
		},
		{"Externally managed infrastructure", []string{"TestInfraClusterExternallyManaged"}, ""},
		{"Multi tenancy", []string{"TestInfraClusterWatchFilter", "TestInfraMachineMultiTenancy"}, ""},
		{"Clusterctl support", []string{"TestClusterctl"}, ""},
		{"InfraCluster: pausing", []string{"TestInfraClusterPausing"}, ""},
	},
	"infra-machine.md": {
		{"All resources: scope", []string{"TestAllResourcesScope"}, ""},
		{"All resources: TypeMeta and ObjectMetafield", []string{"TestAllResourcesTypeMetaAndObjectMeta"}, ""},
		{"All resources: APIVersion field value", []string{"TestAllResourcesAPIVersion"}, ""},
		{"InfraMachine, InfraMachineList resource definition", []string{"TestInfraMachineResourceDefinition"}, ""},
		{"InfraMachine: provider ID", []string{
			"TestInfraMachineProviderID",
			"TestInfraMachineProviderIDComesWithProvisionedAtTheLatest", "TestInfraMachinePresetProviderIDAdopts",
		}, ""},
		{"InfraMachine: failure domain", []string{
			"TestInfraMachineFailureDomain",
			"TestInfraMachineHasNoFailureDomainInItsSpec",
		}, ""},
		{"InfraMachine: addresses", []string{"TestInfraMachineAddresses"}, ""},
		{"InfraMachine: initialization completed", []string{
			"TestInfraMachineInitializationCompleted",
			"TestInfraMachineProvisionedNeverBecomesFalseAgain",
		}, ""},
		{"InfraMachine: conditions", []string{
			"TestInfraMachineConditions",
			"TestInfraMachineReadyDoesNotFollowOutagesOfTheCloudsAPI",
		}, ""},
		{"InfraMachine: terminal failures", []string{
			"TestInfraMachineTerminalFailures",
			"TestInfraMachineVanishedVMIsShownAndNotMadeAgain",
		}, ""},
		{"InfraMachine: support for in-place changes", []string{"TestInfraMachineSupportForInPlaceChanges"}, ""},
		{
			"InfraMachineTemplate, InfraMachineTemplateList resource definition",
			[]string{"TestInfraMachineTemplateResourceDefinition"},
			"",
		},
		{"InfraMachineTemplate: support for SSA dry run", []string{
			"TestTemplatesSupportSSADryRun",
			"TestInfraMachineTemplateEditedInPlaceIsShown",
		}, ""},
		{"Multi tenancy", []string{"TestInfraMachineMultiTenancy", "TestInfraMachineWatchFilter"}, ""},
		{"Clusterctl support", []string{"TestClusterctl"}, ""},
		{"InfraMachine: pausing", []string{
			"TestInfraMachinePausing", "TestInfraMachinePausingStopsDeletion",
			"TestInfraMachineTemplatePausing",
		}, ""},
		{
			"InfraMachineTemplate: support cluster autoscaling from zero",
			[]string{"TestInfraMachineTemplateSupportForClusterAutoscalingFromZero"},
			"",
		},
	},
	"bootstrap-config.md": {
		{"All resources: scope", []string{"TestAllResourcesScope"}, ""},
		{"All resources: TypeMeta and ObjectMetafield", []string{"TestAllResourcesTypeMetaAndObjectMeta"}, ""},
		{"All resources: APIVersion field value", []string{"TestAllResourcesAPIVersion"}, ""},
		{"BootstrapConfig, BootstrapConfigList resource definition", []string{"TestBootstrapConfigResourceDefinition"}, ""},
		{"BootstrapConfig: data secret", []string{
			"TestBootstrapConfigDataSecret",
			"TestBootstrapConfigDataSecretNameIsRebuilt", "TestBootstrapConfigTokenLivesUntilTheNodeJoins",
		}, ""},
		{"BootstrapConfig: initialization completed", []string{"TestBootstrapConfigInitializationCompleted"}, ""},
		{"BootstrapConfig: conditions", []string{"TestBootstrapConfigConditions"}, ""},
		{"BootstrapConfig: terminal failures", []string{"TestBootstrapConfigTerminalFailures"}, ""},
		{"BootstrapConfig: support for in-place changes", []string{"TestBootstrapConfigSupportForInPlaceChanges"}, ""},
		{
			"BootstrapConfigTemplate, BootstrapConfigTemplateList resource definition",
			[]string{"TestBootstrapConfigTemplateResourceDefinition"},
			"",
		},
		{"BootstrapConfigTemplate: support for SSA dry run", []string{
			"TestTemplatesSupportSSADryRun",
			"TestBootstrapConfigTemplateEditedInPlaceIsShown",
		}, ""},
		{"Sentinel file", nil, "user data is its author's, to the byte; the infrastructure does not look for the file"},
		{"Taint Nodes at creation", nil, "optional; user data is its author's, and the infrastructure keeps the taints of " +
			"spec.nodeTemplate on the Node"},
		{"Support for running multiple instances", []string{"TestBootstrapConfigWatchFilter"}, ""},
		{"Clusterctl support", []string{"TestClusterctl"}, ""},
		{"BootstrapConfig: pausing", []string{"TestBootstrapConfigPausing"}, ""},
	},
	"control-plane.md": {
		{"All resources: scope", []string{"TestAllResourcesScope"}, ""},
		{"All resources: TypeMeta and ObjectMetafield", []string{"TestAllResourcesTypeMetaAndObjectMeta"}, ""},
		{"All resources: APIVersion field value", []string{"TestAllResourcesAPIVersion"}, ""},
		{"ControlPlane, ControlPlaneList resource definition", []string{"TestControlPlaneResourceDefinition"}, ""},
		{"ControlPlane: endpoint", []string{"TestControlPlaneEndpoint"}, ""},
		{"ControlPlane: replicas", []string{"TestControlPlaneHasNoReplicas"}, ""},
		{"ControlPlane: version", []string{
			"TestControlPlaneVersion", "TestControlPlaneVersionIsReported",
			"TestMachineVersionThatIsNotTheKubeletsIsTold",
		}, ""},
		{
			"ControlPlane: machines",
			[]string{"TestControlPlaneExternalManagedControlPlane", "TestControlPlaneHasNoReplicas"},
			"",
		},
		{"ControlPlane: rolloutAfter", []string{"TestControlPlaneHasNoReplicas"}, ""},
		{"ControlPlane: initialization completed", []string{"TestControlPlaneInitializationCompleted"}, ""},
		{"ControlPlane: in-place updates", nil, "there are no control plane machines"},
		{"ControlPlane: conditions", []string{"TestControlPlaneConditions"}, ""},
		{"ControlPlane: terminal failures", []string{"TestControlPlaneTerminalFailures"}, ""},
		{
			"ControlPlaneTemplate, ControlPlaneTemplateList resource definition",
			[]string{"TestControlPlaneTemplateResourceDefinition", "TestTemplatesSupportSSADryRun"},
			"",
		},
		{"Cluster kubeconfig management", []string{
			"TestClusterKubeconfigManagement", "TestClusterKubeconfigRunsNoPrograms",
			"TestClusterKubeconfigIsRegenerated",
		}, ""},
		{"Cluster certificate management", nil, "the certificates are those of whoever runs the control plane"},
		{"Machine placement", nil, "there are no control plane machines"},
		{"Metadata propagation", nil, "there are no control plane machines"},
		{"MinReadySeconds and UpToDate propagation", nil, "there are no control plane machines"},
		{"Support for running multiple instances", []string{"TestControlPlaneWatchFilter"}, ""},
		{"Clusterctl support", []string{"TestClusterctl"}, ""},
		{"ControlPlane: pausing", []string{"TestControlPlanePausing"}, ""},
	},
	"clusterctl.md": {
		{"Metadata YAML", []string{"TestClusterctl/MetadataYAML"}, ""},
		{"Components YAML", []string{
			"TestClusterctl/ProviderRepositories", "TestClusterctl/ComponentsTargetNs", "TestClusterctl/ControllersAndNamespace",
			"TestClusterctl/ComponentsVariables",
			"TestClusterctl/ComponentsLabels", "TestClusterctl/ComponentsCRDs", "TestClusterctl/NothingOfTheNativeAPI",
			"TestClusterctl/NoExtensionConfig",
		}, ""},
		{"Workload cluster templates", []string{
			"TestClusterctl/TemplateNames", "TestClusterctl/TemplatesTargetNs", "TestClusterctl/TemplatesVariables",
			"TestClusterctl/TemplatesDecode",
		}, ""},
		{"ClusterClass definitions", []string{"TestClusterctl/ClusterClasses"}, ""},
		{"OwnerReferences chain", []string{"TestMoveOwnerReferencesChain"}, ""},
		{"Components YAML transformations", []string{
			"TestClusterctl/ComponentsTargetNs",
			"TestClusterctl/ComponentsVariables",
		}, ""},
		{"Cluster template transformations", []string{
			"TestClusterctl/TemplatesTargetNs",
			"TestClusterctl/TemplatesVariables",
		}, ""},
		{"Links to external objects", []string{"TestClusterctl/TemplatesAreComplete"}, ""},
		{"Move", []string{
			"TestMoveTakesAlongWhatMachinesAreMadeFrom", "TestMoveIsBlockedByNativeUsersOfAClass",
			"TestMoveIsBlockedWhileAVMIsBeingMade",
			"TestMoveRebuildsTheStatus", "TestMoveAndCrashFindTheVM", "TestInfraMachinePausingStopsDeletion",
		}, ""},
	},
}

// TestEveryRuleHasATest reads the pages of the version of Cluster API that is
// built with: a rule that comes with another version has no test yet.
func TestEveryRuleHasATest(t *testing.T) {
	t.Parallel()
	folder := contractPages(t)
	tests := testsHere(t)
	for page, rules := range pages {
		text, err := os.ReadFile(filepath.Join(folder, page))
		if err != nil {
			t.Fatal(err)
		}
		var ours []string
		for _, r := range rules {
			ours = append(ours, r.title)
			if (len(r.tests) == 0) == (r.not == "") {
				t.Errorf("%s: rule %q has neither a test nor a reason, or both", page, r.title)
			}
			for _, name := range r.tests {
				if !tests(name) {
					t.Errorf("%s: there is no test %s for rule %q", page, name, r.title)
				}
			}
		}
		for _, title := range titles(page, string(text)) {
			if !slices.Contains(ours, title) {
				t.Errorf("%s has a rule %q without a test", page, title)
			}
		}
		for _, title := range ours {
			if !slices.Contains(titles(page, string(text)), title) {
				t.Errorf("%s has no rule %q any more", page, title)
			}
		}
	}
}

// contractPages is where the pages are: beside the source of the module.
func contractPages(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "docs", "book", "src", "developer", "providers", "contracts")
}

var (
	row     = regexp.MustCompile(`(?m)^\| \[(.*)\] +\| (?:Yes|No) `)
	heading = regexp.MustCompile(`(?m)^###? (.*)$`)
)

// titles are those of a page's rules: of its table, or, where there is none, its
// headings but the introduction's.
func titles(page, text string) []string {
	pattern := row
	if page == "clusterctl.md" {
		pattern = heading
	}
	var all []string
	for _, found := range pattern.FindAllStringSubmatch(text, -1) {
		title := strings.ReplaceAll(found[1], "`", "")
		if title != "Provider Repositories" && title != "Additional notes" {
			all = append(all, title)
		}
	}
	return all
}

// testsHere says of a test, or of a subtest by the name of its check, whether it
// is in this package.
func testsHere(t *testing.T) func(name string) bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, f := range files {
		if f == "rules_test.go" {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	return func(name string) bool {
		name, check, sub := strings.Cut(name, "/")
		return strings.Contains(source.String(), "\nfunc "+name+"(t *testing.T) {") &&
			(!sub || strings.Contains(source.String(), "\t\""+check+"\":"))
	}
}
