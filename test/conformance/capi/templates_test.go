package capi

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

const infrastructure = "infrastructure-capmcm"

// templates are the cluster templates of a release: file name to text.
func (r release) templates(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.in(t, infrastructure), "cluster-template*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range files {
		all[filepath.Base(f)] = r.text(t, infrastructure, filepath.Base(f))
	}
	return all
}

// clouds are those that have flavors.
func clouds() []string {
	return []string{"sim", "aws", "azure", "gcp", "hetzner", "kubevirt", "openstack", "vsphere"}
}

// common are the variables that clusterctl has flags for.
func common() map[string]string {
	return map[string]string{
		"NAMESPACE": "prod", "CLUSTER_NAME": "c1", "KUBERNETES_VERSION": "v1.36.3", "CONTROL_PLANE_MACHINE_COUNT": "3",
		"WORKER_MACHINE_COUNT": "2",
	}
}

// filled are the objects of a template as clusterctl generate cluster writes
// them: common variables, defaults, and some text for the rest.
func filled(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	values := common()
	all, err := cluster.Decode([]byte(variable.ReplaceAllStringFunc(text, func(found string) string {
		v := variable.FindStringSubmatch(found)
		value, known := values[v[1]]
		switch {
		case strings.HasPrefix(found, "$$"):
			return found[1:]
		case known:
			return value
		case v[2] != "" && !strings.HasPrefix(v[3], "${"): // the default is no other variable
			return v[3]
		}
		return "some-text"
	})))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// eachTemplate runs check for the objects of each template.
func (r release) eachTemplate(t *testing.T, check func(t *testing.T, file string, all []*unstructured.Unstructured)) {
	t.Helper()
	texts := r.templates(t)
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		check(t, file, filled(t, texts[file]))
	}
}

// There is a default, and each flavor for each cloud.
func templateNames(t *testing.T, r release) {
	t.Helper()
	texts := r.templates(t)
	for _, cloud := range append(clouds(), "") {
		for _, flavor := range []string{"", "workers-only", "self-hosted", "autoscale", "health-check"} {
			name := "cluster-template.yaml"
			if both := strings.Trim(cloud+"-"+flavor, "-"); both != "" {
				name = "cluster-template-" + both + ".yaml"
			}
			if texts[name] == "" {
				t.Errorf("%s is not there", name)
			}
		}
	}
}

// All is in the namespace that is asked for, which exists.
func templatesTargetNamespace(t *testing.T, r release) {
	t.Helper()
	r.eachTemplate(t, func(t *testing.T, file string, all []*unstructured.Unstructured) {
		t.Helper()
		for _, o := range all {
			if o.GetKind() == "Namespace" || o.GetNamespace() != common()["NAMESPACE"] {
				t.Errorf("%s: %s %s is in namespace %q", file, o.GetKind(), o.GetName(), o.GetNamespace())
			}
		}
	})
}

// The common variables are used, and no others for what they mean. There is no
// dollar but that of a variable, or two for one in a script.
func templatesVariables(t *testing.T, r release) {
	t.Helper()
	for file, text := range r.templates(t) {
		var names []string
		for _, v := range variable.FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(v[0], "$$") {
				continue
			}
			names = append(names, v[1])
			if v[1] != strings.ToUpper(v[1]) {
				t.Errorf("%s: %s is replaced by clusterctl; write $%s if a script means it", file, v[0], v[0])
			}
		}
		for name := range common() {
			needed := name != "CONTROL_PLANE_MACHINE_COUNT" && (name != "WORKER_MACHINE_COUNT" ||
				!strings.HasSuffix(file, "autoscale.yaml"))
			if needed && !slices.Contains(names, name) {
				t.Errorf("%s does not use %s", file, name)
			}
		}
		if strings.Contains(variable.ReplaceAllString(text, ""), "${") {
			t.Errorf("%s has a ${ that clusterctl does not understand", file)
		}
	}
}

// Whatever an object of a template refers to is in the template, but what users
// bring along: a class, or the kubeconfig of a control plane that exists.
func templatesAreComplete(t *testing.T, r release) {
	t.Helper()
	r.eachTemplate(t, func(t *testing.T, file string, all []*unstructured.Unstructured) {
		t.Helper()
		there := map[string]bool{}
		for _, o := range all {
			there[o.GroupVersionKind().Group+" "+o.GetKind()+" "+o.GetName()] = true
		}
		for _, o := range all {
			for _, path := range [][]string{
				{"spec", "infrastructureRef"},
				{"spec", "controlPlaneRef"},
				{"spec", "template", "spec", "infrastructureRef"},
				{"spec", "template", "spec", "bootstrap", "configRef"},
				{"spec", "machineTemplate", "spec", "infrastructureRef"},
			} {
				ref, found, err := unstructured.NestedStringMap(o.Object, path...)
				if err != nil {
					t.Fatal(err)
				}
				if found && (len(ref) != 3 || !there[ref["apiGroup"]+" "+ref["kind"]+" "+ref["name"]]) {
					t.Errorf("%s: %s of %s is %v: group, kind and name of an object of the template, no version", file,
						strings.Join(path, "."), o.GetKind(), ref)
				}
			}
		}
	})
}

// Fields are those of the types, so that no API server drops or refuses any.
func templatesDecode(t *testing.T, r release) {
	t.Helper()
	r.eachTemplate(t, func(t *testing.T, file string, all []*unstructured.Unstructured) {
		t.Helper()
		decode(t, file, all)
	})
}

// decode decodes the objects whose types are known.
func decode(t *testing.T, file string, all []*unstructured.Unstructured) {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		typed, err := scheme.New(o.GroupVersionKind())
		if runtime.IsNotRegisteredError(err) && strings.HasPrefix(o.GetKind(), "Kubeadm") {
			continue // another provider's
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, typed, true); err != nil {
			t.Errorf("%s: %s %s: %v", file, o.GetKind(), o.GetName(), err)
		}
	}
}

// Workers name the version that the kubelet reports, and do not drain for ever.
// The flavors whose control plane is external say so: without a controlPlaneRef
// core neither drains nor deletes Nodes.
func templatesOfWorkers(t *testing.T, r release) {
	t.Helper()
	r.eachTemplate(t, func(t *testing.T, file string, all []*unstructured.Unstructured) {
		t.Helper()
		if strings.Contains(file, "topology") {
			return // those are in the class
		}
		for _, md := range of[clusterv1.MachineDeployment](t, all, "MachineDeployment") {
			spec := md.Spec.Template.Spec
			if spec.Version != common()["KUBERNETES_VERSION"] {
				t.Errorf("%s: version %q: core takes Machines for outdated that differ from the kubelet", file, spec.Version)
			}
			if spec.Deletion.NodeDrainTimeoutSeconds == nil || *spec.Deletion.NodeDrainTimeoutSeconds <= 0 {
				t.Errorf("%s: draining never ends", file)
			}
		}
		for _, c := range of[clusterv1.Cluster](t, all, "Cluster") {
			if !c.Spec.ControlPlaneRef.IsDefined() || c.Spec.InfrastructureRef.Kind != "MCMCluster" {
				t.Errorf("%s: control plane %v, infrastructure %v", file, c.Spec.ControlPlaneRef, c.Spec.InfrastructureRef)
			}
			external := c.Spec.ControlPlaneRef.Kind == "MCMExternalControlPlane"
			if want := strings.Count(file, "workers-only")+strings.Count(file, "self-hosted")+strings.Count(file,
				"autoscale")+strings.Count(file, "health-check") > 0; external != want {
				t.Errorf("%s: control plane %v", file, c.Spec.ControlPlaneRef)
			}
		}
	})
}

// With replicas, each apply would undo the autoscaler.
func templatesForAutoscaler(t *testing.T, r release) {
	t.Helper()
	found := 0
	r.eachTemplate(t, func(t *testing.T, file string, all []*unstructured.Unstructured) {
		t.Helper()
		if !strings.HasSuffix(file, "autoscale.yaml") {
			return
		}
		for _, md := range of[clusterv1.MachineDeployment](t, all, "MachineDeployment") {
			found++
			if md.Spec.Replicas != nil || md.Annotations[clusterv1.AutoscalerMinSizeAnnotation] != "0" ||
				md.Annotations[clusterv1.AutoscalerMaxSizeAnnotation] == "" {
				t.Errorf("%s: replicas %v, annotations %v", file, md.Spec.Replicas, md.Annotations)
			}
		}
	})
	if want := len(clouds()) + 1; found != want {
		t.Errorf("%d MachineDeployments for the autoscaler, want %d: for each cloud, and for any", found, want)
	}
}

// Machine Controller Manager's list of conditions, each with its timeout, for the
// machines of the template's MachineDeployment.
func templatesForHealthChecks(t *testing.T, r release) {
	t.Helper()
	found := 0
	r.eachTemplate(t, func(t *testing.T, file string, all []*unstructured.Unstructured) {
		t.Helper()
		for _, check := range of[clusterv1.MachineHealthCheck](t, all, "MachineHealthCheck") {
			found++
			if mds := of[clusterv1.MachineDeployment](t, all,
				"MachineDeployment"); check.Spec.Selector.MatchLabels[clusterv1.MachineDeploymentNameLabel] != mds[0].Name {
				t.Errorf("%s: selector %v", file, check.Spec.Selector)
			}
			var conditions []string
			for _, c := range check.Spec.Checks.UnhealthyNodeConditions {
				conditions = append(conditions, string(c.Type)+string(c.Status))
				if c.TimeoutSeconds == nil || *c.TimeoutSeconds == 0 {
					t.Errorf("%s: condition %s has no timeout", file, c.Type)
				}
			}
			for _, want := range []string{
				"ReadyFalse", "ReadyUnknown", "KernelDeadlockTrue", "ReadonlyFilesystemTrue",
				"DiskPressureTrue", "NetworkUnavailableTrue",
			} {
				if !slices.Contains(conditions, want) {
					t.Errorf("%s: %s is not among %v", file, want, conditions)
				}
			}
			if s := check.Spec.Checks.NodeStartupTimeoutSeconds; s == nil || *s == 0 {
				t.Errorf("%s: a machine may take for ever to join", file)
			}
		}
	})
	if want := len(clouds()) + 1; found != want {
		t.Errorf("%d MachineHealthChecks, want %d: for each cloud, and for any", found, want)
	}
}

// A ClusterClass is in a file of its name, has no variables of clusterctl and no
// namespaces, and all that it refers to. Templates name one that is there.
func clusterClasses(t *testing.T, r release) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.in(t, infrastructure), "clusterclass-*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d ClusterClasses (%v)", len(files), err)
	}
	var names []string
	for _, file := range files {
		names = append(names, clusterClass(t, filepath.Base(file), r.text(t, infrastructure, filepath.Base(file))))
	}
	r.eachTemplate(t, func(t *testing.T, file string, all []*unstructured.Unstructured) {
		t.Helper()
		for _, c := range of[clusterv1.Cluster](t, all, "Cluster") {
			if c.Spec.Topology.IsDefined() && !slices.Contains(names, c.Spec.Topology.ClassRef.Name) {
				t.Errorf("%s: there is no class %s", file, c.Spec.Topology.ClassRef.Name)
			}
		}
	})
}

// clusterClass checks the file of a class and returns its name.
func clusterClass(t *testing.T, file, text string) string {
	t.Helper()
	if strings.Contains(text, "${") {
		t.Errorf("%s has variables of clusterctl; it has its own", file)
	}
	all, err := cluster.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	decode(t, file, all)
	there := map[string]bool{}
	for _, o := range all {
		there[o.GetAPIVersion()+" "+o.GetKind()+" "+o.GetName()] = true
		if o.GetNamespace() != "" {
			t.Errorf("%s: %s %s has a namespace", file, o.GetKind(), o.GetName())
		}
	}
	classes := of[clusterv1.ClusterClass](t, all, "ClusterClass")
	if len(classes) != 1 || file != "clusterclass-"+classes[0].Name+".yaml" {
		t.Fatalf("%s has %d classes", file, len(classes))
	}
	class := classes[0].Spec
	refs := []clusterv1.ClusterClassTemplateReference{
		class.Infrastructure.TemplateRef, class.ControlPlane.TemplateRef,
		class.ControlPlane.MachineInfrastructure.TemplateRef,
	}
	for _, md := range class.Workers.MachineDeployments {
		refs = append(refs, md.Bootstrap.TemplateRef, md.Infrastructure.TemplateRef)
	}
	for _, ref := range refs {
		if ref.Name != "" && !there[ref.APIVersion+" "+ref.Kind+" "+ref.Name] {
			t.Errorf("%s: %v is not in the file", file, ref)
		}
	}
	return classes[0].Name
}
