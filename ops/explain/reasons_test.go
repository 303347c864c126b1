package explain

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

var update = flag.Bool("update", false, "write the files that are compared")

// reasonName matches the constants that are reasons of conditions.
var reasonName = regexp.MustCompile(`^[Rr]eason[A-Z]`)

// constants returns the constants of such names that the Go files below a folder declare, by value. Folders of
// drivers are left out: their reasons are codes of clouds, which messages quote.
func constants(t *testing.T, dir string, name *regexp.Regexp) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		driver := strings.HasPrefix(path, "../../cloud/") && strings.Count(path, "/") > 3
		if err != nil || entry.IsDir() || driver || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, declaration := range file.Decls {
			if group, ok := declaration.(*ast.GenDecl); ok && group.Tok == token.CONST {
				collect(group, path, name, found)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func collect(group *ast.GenDecl, path string, wanted *regexp.Regexp, found map[string]string) {
	for _, spec := range group.Specs {
		value := spec.(*ast.ValueSpec)
		for i, name := range value.Names {
			if !wanted.MatchString(name.Name) || i >= len(value.Values) {
				continue
			}
			if literal, ok := value.Values[i].(*ast.BasicLit); ok && literal.Kind == token.STRING {
				text, _ := strconv.Unquote(literal.Value)
				found[text] = path + " " + name.Name
			}
		}
	}
}

// ofClusterAPI are reasons of Cluster API's controllers that the table explains.
func ofClusterAPI() []string {
	return []string{
		clusterv1.PausedReason, clusterv1.NotPausedReason, clusterv1.MachineDeletingDrainingNodeReason,
		clusterv1.MachineDeletingWaitingForVolumeDetachReason, clusterv1.MachineDeletingWaitingForPreDrainHookReason,
		clusterv1.MachineDeletingWaitingForPreTerminateHookReason,
		clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason,
		clusterv1.MachineDeletingWaitingForBootstrapDeletionReason, clusterv1.DeletionCompletedReason,
		clusterv1.MachineNodeNotReadyReason, clusterv1.MachineNodeNotHealthyReason, clusterv1.MachineNodeReadyUnknownReason,
		clusterv1.MachineNodeHealthUnknownReason, clusterv1.MachineNodeDoesNotExistReason, clusterv1.ConnectionDownReason,
		clusterv1.InspectionFailedReason,
	}
}

func TestEveryReasonHasARow(t *testing.T) {
	t.Parallel()
	declared := map[string]string{machinev1.EventClassFallback: "a reason of VMReady"}
	for _, dir := range []string{"../../api", "../../controllers", "../../cloud", "."} { // the last has those of findings
		maps.Copy(declared, constants(t, dir, reasonName))
	}
	for _, reason := range ofClusterAPI() {
		declared[reason] = "Cluster API"
	}
	if len(declared) < 150 {
		t.Fatalf("only %d reasons found", len(declared))
	}
	explained := map[string]bool{}
	for _, r := range reasonRows() {
		explained[r.Reason] = true
		if declared[r.Reason] == "" {
			t.Errorf("reasons.yaml explains %s, which is the reason of nothing", r.Reason)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(declared)) {
		if !explained[reason] {
			t.Errorf("reasons.yaml does not explain %s (%s)", reason, declared[reason])
		}
	}
}

// TestRowsAreComplete: who reads a row knows what to do.
func TestRowsAreComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range reasonRows() {
		key := r.Reason + " " + strings.Join(r.Types, ",")
		if seen[key] {
			t.Errorf("%s: there are two such rows", key)
		}
		seen[key] = true
		if r.Meaning == "" || r.Origin == "" {
			t.Errorf("%s: no meaning or origin", key)
		}
		if r.Concern != None && (r.Remedy == "" || r.Next == "") {
			t.Errorf("%s: concern %s, and no remedy or next step", key, r.Concern)
		}
		if r.Concern == None && (r.Person || r.Remedy != "" || len(r.Commands) > 0) {
			t.Errorf("%s: nothing is wrong, so there is nothing to do", key)
		}
		if !slices.Contains([]deadline{"", creationDeadline, healthDeadline, drainDeadline}, r.Clock) {
			t.Errorf("%s: no clock is called %q", key, r.Clock)
		}
	}
}

// TestTroubleshootingIsCurrent: the page is made from the table.
func TestTroubleshootingIsCurrent(t *testing.T) {
	t.Parallel()
	const page = "../../docs/troubleshooting.md"
	want := Troubleshooting()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what reasons.yaml and events.yaml say; run go test ./ops/explain -update", page)
	}
	told := map[Concern]int{}
	for _, p := range parts {
		for _, c := range p.concerns {
			told[c.concern]++
		}
	}
	for _, c := range concerns {
		if told[c] != 1 {
			t.Errorf("concern %s is in %d parts of the page, want one", c, told[c])
		}
	}
}

// TestCommandsEndNoProtection: whoever pastes a command has read no more than the reason. What skips a
// budget, approves a deletion or ends a pause stands in the remedy, with its consequence.
func TestCommandsEndNoProtection(t *testing.T) {
	t.Parallel()
	harmless := regexp.MustCompile(`^kubectl (--kubeconfig TARGET )?(get|describe|edit|mcm (why|tree|migrate status)|` +
		`delete machines\.(machine\.sapcloud\.io|cluster\.x-k8s\.io)/\{machine\}) `)
	overrides := regexp.MustCompile(`force-deletion|release|approve|unfreeze|paused|max-replacements|finalizers":`)
	for _, r := range reasonRows() {
		for _, command := range r.Commands {
			if !harmless.MatchString(command) || overrides.MatchString(command) {
				t.Errorf("%s: command %q does more than to look, to edit or to delete a Machine", r.Reason, command)
			}
		}
	}
}

// TestDeletesOnlyMachines: deleting an MCMMachine or MCMConfig skips Cluster API's drain, volumes and hooks.
func TestDeletesOnlyMachines(t *testing.T) {
	t.Parallel()
	c := newCAPI()
	f := &Facts{Now: now, Objects: []*Object{c.cluster, c.machine, c.infra, c.boot}}
	types := []string{
		clusterv1.ReadyCondition, infrav1.VMProvisionedCondition, clusterv1.DeletingCondition,
		infrav1.LoadBalancerRegisteredCondition, infrav1.TagsUpdatedCondition, infrav1.BootDataRemovedCondition,
	}
	deletions := 0
	for _, r := range reasonRows() {
		for _, kind := range slices.Concat(r.Types, types) {
			for _, o := range []*Object{c.infra, c.boot} {
				commands := strings.Join(f.judge(o, Condition{Type: kind, Reason: r.Reason}).Commands, "\n")
				if strings.Contains(commands, "delete mcm") {
					t.Errorf("%s of %s tells to %s", r.Reason, o.Kind, commands)
				}
				if strings.Contains(commands, "kubectl delete machines.cluster.x-k8s.io/m -n garden") {
					deletions++
				}
			}
		}
		native := strings.Contains(strings.Join(r.Commands, ""), "delete machines.machine.sapcloud.io")
		if native && strings.Contains(r.Origin, "MCM") {
			t.Errorf("%s: a reason of an MCMMachine or MCMConfig tells to delete a Machine of the native API", r.Reason)
		}
	}
	if deletions == 0 {
		t.Error("no command names the Machine of the MCMMachine")
	}
}

// TestPauseHasNoCommand: a pause may be all that keeps two controllers from the same VM.
func TestPauseHasNoCommand(t *testing.T) {
	t.Parallel()
	row := rowOf(conditionPaused, reasonPaused)
	if len(row.Commands) > 0 || !strings.Contains(row.Remedy, "clusterctl move") {
		t.Errorf("remedy %q, commands %q: want who may have paused it, and no command", row.Remedy, row.Commands)
	}
}
