package migration

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// surroundings is about what a pool shares with others.
func (p *planner) surroundings() {
	if p.around == nil {
		return
	}
	for _, kind := range p.around.Unserved {
		p.find(Finding{
			Level: Blocked, Object: "CustomResourceDefinition " + kind,
			Text: "the API server does not know this kind", Remedy: "install both doors, and Cluster API: clusterctl init " +
				"--infrastructure mcm --bootstrap mcm --control-plane mcm",
		})
	}
	p.Findings = append(p.Findings, p.around.foreign(p.options.Now)...)
	if p.options.To == DoorClusterAPI {
		p.selectors(&p.Native)
		p.classes()
	}
}

// classes is about the classes of the pool: that they exist, who else uses them, and
// whether the other door may read their Secrets.
func (p *planner) classes() {
	for _, name := range keysOf(p.usedClasses()) {
		class := p.around.Classes[name]
		object := machinev1.MachineClassKind + " " + p.Plan.Pool.Namespace + "/" + name
		if class == nil {
			p.find(Finding{Level: Blocked, Object: object, Text: "it does not exist", Remedy: "restore it"})
			continue
		}
		if others := p.usersBeside(name); len(others) > 0 {
			p.find(Finding{
				Level: Kept, Object: object,
				Text: fmt.Sprintf("it is also used by %s; each door keeps a finalizer of its own on it, so it stays while "+
					"either needs it", strings.Join(others, ", ")),
			})
		}
		if t := class.NodeTemplate; t != nil && len(t.VirtualCapacity) > 0 {
			p.find(Finding{
				Level: Lost, Object: object, Field: "nodeTemplate.virtualCapacity",
				Text: "the Cluster API door writes no virtual capacity; what stands on the Nodes stays, new Nodes get none",
			})
		}
		p.secrets(object, class)
	}
}

func (p *planner) secrets(object string, class *machinev1.MachineClass) {
	for _, ref := range secretsOf(class) {
		secret := p.around.Secrets[ref.key]
		there := secret != nil && secret.Name != ""
		if ref.key.Namespace == class.Namespace {
			if !there {
				p.find(Finding{Level: Blocked, Object: object, Field: ref.field, Text: "Secret " + ref.key.String() +
					" does not exist, and without it no VM is found", Remedy: "restore it"})
			}
			continue
		}
		if there && allowed(secret, class.Namespace) {
			continue
		}
		text := "Secret " + ref.key.String() +
			" is of another namespace and does not allow this one, as the Cluster API door asks for"
		if secret == nil || secret.Name == "" {
			text = "Secret " + ref.key.String() + " is of another namespace and does not exist"
		}
		p.find(Finding{
			Level: Blocked, Object: object, Field: ref.field, Text: text,
			Remedy: fmt.Sprintf("set annotation %s=%s on that Secret, or copy it here and name the copy",
				machinev1.AllowedNamespacesAnnotation, class.Namespace),
		})
	}
}

func allowed(secret metav1.Object, namespace string) bool {
	for item := range strings.SplitSeq(secret.GetAnnotations()[machinev1.AllowedNamespacesAnnotation], ",") {
		if item = strings.TrimSpace(item); item == "*" || item == namespace {
			return true
		}
	}
	return false
}

// usedClasses are the classes of the pool's templates and machines.
func (p *planner) usedClasses() map[string]bool {
	used := map[string]bool{}
	if d := p.Native.Deployment; d != nil {
		used[d.Spec.Template.Spec.Class.Name] = true
	}
	for i := range p.Native.Machines {
		used[p.Native.Machines[i].Spec.Class.Name] = true
	}
	return used
}

// usersBeside are the native pools, besides this one, that use a class.
func (p *planner) usersBeside(class string) []string {
	var users []string
	for i := range p.around.Deployments {
		if o := &p.around.Deployments[i]; o.Spec.Template.Spec.Class.Name == class {
			users = append(users, Pool{KindDeployment, o.Namespace, o.Name}.String())
		}
	}
	for i := range p.around.Sets {
		if o := &p.around.Sets[i]; o.Spec.Template.Spec.Class.Name == class && metav1.GetControllerOf(o) == nil {
			users = append(users, Pool{KindSet, o.Namespace, o.Name}.String())
		}
	}
	for i := range p.around.Machines {
		if o := &p.around.Machines[i]; o.Spec.Class.Name == class && metav1.GetControllerOf(o) == nil {
			users = append(users, Pool{KindMachine, o.Namespace, o.Name}.String())
		}
	}
	return slices.DeleteFunc(users, func(u string) bool { return u == p.Plan.Pool.String() })
}

// related reports whether an object of Cluster API and a native one of that kind are
// copies of each other.
func related(o, native metav1.Object, kind string) bool {
	return originOf(o, kind) == native.GetName() || originOf(native, kind) == o.GetName()
}

// byName are objects by their names.
func byName[T any, P interface {
	*T
	metav1.Object
}](list []T) map[string]metav1.Object {
	out := map[string]metav1.Object{}
	for i := range list {
		out[P(&list[i]).GetName()] = P(&list[i])
	}
	return out
}
