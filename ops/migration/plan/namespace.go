package plan

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
	"github.com/capmcm/cluster-api-provider-mcm/ops/read"
)

// surroundings is about what a pool shares with others.
func (p *planner) surroundings() {
	if p.Around == nil {
		return
	}
	for _, kind := range p.Around.Unserved {
		p.find(migration.Finding{
			Level: migration.Blocked, Object: "CustomResourceDefinition " + kind,
			Text: "the API server does not know this kind", Remedy: "install both APIs, and Cluster API: clusterctl init " +
				"--infrastructure capmcm --bootstrap capmcm --control-plane capmcm",
		})
	}
	p.Findings = append(p.Findings, p.Around.ForeignLeases(p.options.Now)...)
	if p.options.To == migration.ClusterAPI {
		p.selectors(&p.Native)
		p.classes()
	}
}

// classes is about the classes of the pool: that they exist, who else uses them, and
// whether the other API may read their Secrets.
func (p *planner) classes() {
	for _, name := range objects.Keys(p.usedClasses()) {
		class := p.Around.Classes[name]
		object := machinev1.MachineClassKind + " " + p.Plan.Pool.Namespace + "/" + name
		if class == nil {
			p.find(migration.Finding{Level: migration.Blocked, Object: object, Text: "it does not exist", Remedy: "restore it"})
			continue
		}
		if others := p.usersBeside(name); len(others) > 0 {
			p.find(migration.Finding{
				Level: migration.Kept, Object: object,
				Text: fmt.Sprintf("it is also used by %s; each API keeps a finalizer of its own on it, so it stays while "+
					"either needs it", strings.Join(others, ", ")),
			})
		}
		if t := class.NodeTemplate; t != nil && len(t.VirtualCapacity) > 0 {
			p.find(migration.Finding{
				Level: migration.Lost, Object: object, Field: "nodeTemplate.virtualCapacity",
				Text: "Cluster API writes no virtual capacity; what stands on the Nodes stays, new Nodes get none",
			})
		}
		p.secrets(object, class)
	}
}

func (p *planner) secrets(object string, class *machinev1.MachineClass) {
	for _, ref := range read.SecretsOf(class) {
		secret := p.Around.Secrets[ref.Key]
		there := secret != nil && secret.Name != ""
		if ref.Key.Namespace == class.Namespace {
			if !there {
				p.find(migration.Finding{Level: migration.Blocked, Object: object, Field: ref.Field, Text: "Secret " +
					ref.Key.String() +
					" does not exist, and without it no VM is found", Remedy: "restore it"})
			}
			continue
		}
		if there && allowed(secret, class.Namespace) {
			continue
		}
		text := "Secret " + ref.Key.String() +
			" is of another namespace and does not allow this one, as Cluster API asks for"
		if secret == nil || secret.Name == "" {
			text = "Secret " + ref.Key.String() + " is of another namespace and does not exist"
		}
		p.find(migration.Finding{
			Level: migration.Blocked, Object: object, Field: ref.Field, Text: text,
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
	for i := range p.Around.Deployments {
		if o := &p.Around.Deployments[i]; o.Spec.Template.Spec.Class.Name == class {
			users = append(users, migration.Pool{Kind: migration.KindDeployment, Namespace: o.Namespace, Name: o.Name}.String())
		}
	}
	for i := range p.Around.Sets {
		if o := &p.Around.Sets[i]; o.Spec.Template.Spec.Class.Name == class && metav1.GetControllerOf(o) == nil {
			users = append(users, migration.Pool{Kind: migration.KindSet, Namespace: o.Namespace, Name: o.Name}.String())
		}
	}
	for i := range p.Around.Machines {
		if o := &p.Around.Machines[i]; o.Spec.Class.Name == class && metav1.GetControllerOf(o) == nil {
			users = append(users, migration.Pool{Kind: migration.KindMachine, Namespace: o.Namespace, Name: o.Name}.String())
		}
	}
	return slices.DeleteFunc(users, func(u string) bool { return u == p.Plan.Pool.String() })
}
