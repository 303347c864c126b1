package validate

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// use is what a class, or a Secret, is named for.
type use string

const (
	native     use = "native"     // machines of the native API
	clusterAPI use = "clusterapi" // machines of Cluster API, whose boot data is elsewhere
	bootData   use = "bootdata"   // boot data for Cluster API
)

// reference is a field with the name of a class or a Secret.
type reference struct {
	field  string
	kind   schema.GroupKind
	use    use
	object client.ObjectKey
}

// The kinds that are named.
var (
	classKind  = machinev1.GroupVersion.WithKind(machinev1.MachineClassKind).GroupKind()
	secretKind = schema.GroupKind{Kind: "Secret"}
)

// fields are where kinds name others; [] is every item of a list.
var fields = map[schema.GroupKind][]reference{
	{Group: machinev1.GroupVersion.Group, Kind: machinev1.MachineKind}: {
		{field: "spec.class.name", kind: classKind, use: native},
	},
	{Group: machinev1.GroupVersion.Group, Kind: machinev1.MachineSetKind}: {
		{field: "spec.template.spec.class.name", kind: classKind, use: native},
	},
	{Group: machinev1.GroupVersion.Group, Kind: machinev1.MachineDeploymentKind}: {
		{field: "spec.template.spec.class.name", kind: classKind, use: native},
	},
	{Group: infrav1.GroupVersion.Group, Kind: "MCMMachine"}: {
		{field: "spec.machineClassRef.name", kind: classKind, use: clusterAPI},
		{field: "spec.fallbackClassRefs[].name", kind: classKind, use: clusterAPI},
	},
	{Group: infrav1.GroupVersion.Group, Kind: "MCMMachineTemplate"}: {
		{field: "spec.template.spec.machineClassRef.name", kind: classKind, use: clusterAPI},
		{field: "spec.template.spec.fallbackClassRefs[].name", kind: classKind, use: clusterAPI},
	},
	{Group: bootstrapv1.GroupVersion.Group, Kind: "MCMConfig"}: {
		{field: "spec.machineClassRef.name", kind: classKind, use: bootData},
		{field: "spec.userDataSecretRef.name", kind: secretKind, use: bootData},
	},
	{Group: bootstrapv1.GroupVersion.Group, Kind: "MCMConfigTemplate"}: {
		{field: "spec.template.spec.machineClassRef.name", kind: classKind, use: bootData},
		{field: "spec.template.spec.userDataSecretRef.name", kind: secretKind, use: bootData},
	},
}

// references are the classes and Secrets that the object names.
func (s subject) references() []reference {
	var found []reference
	for _, r := range fields[s.object.GroupVersionKind().GroupKind()] {
		for _, name := range valuesAt(s.object.Object, strings.Split(r.field, ".")) {
			r.object = client.ObjectKey{Namespace: s.object.GetNamespace(), Name: name}
			found = append(found, r)
		}
	}
	return found
}

// valuesAt are the texts at a path.
func valuesAt(from any, path []string) []string {
	if len(path) == 0 {
		if text, ok := from.(string); ok && text != "" {
			return []string{text}
		}
		return nil
	}
	content, _ := from.(map[string]any)
	name, list := strings.CutSuffix(path[0], "[]")
	if !list {
		return valuesAt(content[name], path[1:])
	}
	var found []string
	items, _ := content[name].([]any)
	for _, item := range items {
		found = append(found, valuesAt(item, path[1:])...)
	}
	return found
}

// resolves notes that what the object names is in none of the files.
func (s subject) resolves(r reference) {
	if s.manifests.files[id(r.kind, r.object)] == "" {
		s.found(Note, r.field, "these files do not have %s %q, so that it was not judged", r.kind.Kind, r.object.Name)
		return
	}
	if r.kind == secretKind {
		s.entry(r.field, r.object)
	}
}

// manifests are the objects of the files, and a reader of their classes and Secrets for the
// functions of the controllers.
type manifests struct {
	files   map[string]string // by kind and name
	objects map[string]client.Object
	used    map[string]map[use]bool
}

func newManifests() manifests {
	return manifests{files: map[string]string{}, objects: map[string]client.Object{}, used: map[string]map[use]bool{}}
}

func id(kind schema.GroupKind, key client.ObjectKey) string {
	return kind.String() + " " + key.String()
}

// add notes the file of an object. If another one has it, it returns that.
func (m manifests) add(o *unstructured.Unstructured, file string) (before string) {
	if o.GetName() == "" {
		return ""
	}
	at := id(o.GroupVersionKind().GroupKind(), client.ObjectKeyFromObject(o))
	before = m.files[at]
	m.files[at] = file
	return before
}

func (m manifests) keep(kind schema.GroupKind, o client.Object) {
	m.objects[id(kind, client.ObjectKeyFromObject(o))] = o
}

func (m manifests) use(r reference) {
	at := id(r.kind, r.object)
	if m.used[at] == nil {
		m.used[at] = map[use]bool{}
	}
	m.used[at][r.use] = true
}

// users are what a class is named for.
func (m manifests) users(class *machinev1.MachineClass) map[use]bool {
	return m.used[id(classKind, client.ObjectKeyFromObject(class))]
}

// Get is that of a client.
func (m manifests) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch into := into.(type) {
	case *corev1.Secret:
		if found, ok := m.objects[id(secretKind, key)].(*corev1.Secret); ok {
			found.DeepCopyInto(into)
			return nil
		}
	case *machinev1.MachineClass:
		if found, ok := m.objects[id(classKind, key)].(*machinev1.MachineClass); ok {
			found.DeepCopyInto(into)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

var errNoLists = errors.New("files are not listed")

// List is that of a client. Nothing that judges a class lists objects.
func (m manifests) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errNoLists
}
