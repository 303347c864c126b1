package validate

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/manifest"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/machinedeployment"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/machineset"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
)

// judge judges objects together: a class with the Secrets that it names.
type judge struct {
	namespace string // of objects that name none
	clouds    *cloud.Registry
	schemas   schemas
	manifests manifests
	report    *Report
}

// subject is the object that is judged.
type subject struct {
	*judge
	file   string
	object *unstructured.Unstructured
}

// found adds what is wrong with the object.
func (s subject) found(severity Severity, field, format string, args ...any) {
	s.report.Problems = append(s.report.Problems, Problem{
		File: s.file, Field: field, Severity: severity, Message: fmt.Sprintf(format, args...),
		Object: &explain.Ref{
			APIVersion: s.object.GetAPIVersion(), Kind: s.object.GetKind(), Namespace: s.object.GetNamespace(),
			Name: s.object.GetName(),
		},
	})
}

// tell adds problems that a controller or a driver finds; worst is how those count that are no warnings.
func (s subject) tell(worst Severity, problems ...cloud.Problem) {
	for _, p := range problems {
		severity := worst
		if p.Severity == cloud.Warning {
			severity = Warning
		}
		s.found(severity, p.Field, "%s", p.Message)
	}
}

// all judges documents.
func (j *judge) all(ctx context.Context, documents []manifest.Document) error {
	var subjects []subject
	for _, d := range documents {
		if d.Object == nil {
			j.report.Problems = append(j.report.Problems, Problem{File: d.File, Severity: Error, Message: d.Wrong})
			continue
		}
		s := subject{j, d.File, d.Object}
		if !s.ours() {
			j.report.Skipped++
			continue
		}
		j.report.Judged++
		if d.Object.GetNamespace() == "" {
			d.Object.SetNamespace(j.namespace)
		}
		s.metadata()
		subjects = append(subjects, s)
		s.remember()
	}
	for _, s := range subjects {
		if err := s.verify(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.file, err)
		}
	}
	j.report.sort()
	return nil
}

func (s subject) isSecret() bool {
	return s.object.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Secret")
}

// ours reports whether the object is of a kind that is judged here.
func (s subject) ours() bool { return s.isSecret() || s.schemas[s.object.GroupVersionKind()] != nil }

// metadata checks the name, and that no other file has the same object.
func (s subject) metadata() {
	name := s.object.GetName()
	if name == "" && s.object.GetGenerateName() == "" {
		s.found(Error, "metadata.name", "is missing; set it")
	}
	for _, wrong := range validation.NameIsDNSSubdomain(name, false) {
		if name != "" {
			s.found(Error, "metadata.name", "%s", wrong)
		}
	}
	if before := s.manifests.add(s.object, s.file); before != "" {
		s.found(Error, "metadata.name", "%s has the same object; remove one", before)
	}
}

// remember keeps classes and Secrets, as far as they can be read, and who names them.
func (s subject) remember() {
	for _, r := range s.references() {
		s.manifests.use(r)
	}
	switch {
	case s.isSecret():
		s.secret()
	case s.object.GroupVersionKind().GroupKind() == classKind:
		class := &machinev1.MachineClass{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(s.object.Object, class) == nil {
			s.manifests.keep(classKind, class)
		}
	}
}

// verify judges one object, when all are known.
func (s subject) verify(ctx context.Context) error {
	if s.isSecret() {
		return nil
	}
	unknown, wrong, err := check(ctx, s.schemas[s.object.GroupVersionKind()], s.object.DeepCopy().Object)
	if err != nil {
		return err
	}
	for _, path := range unknown {
		s.found(Warning, path, "is unknown and would be dropped; remove or correct it")
	}
	for _, e := range wrong {
		s.found(Error, strings.TrimPrefix(e.Field, "<nil>"), "%s", say(e))
	}
	for _, r := range s.references() {
		s.resolves(r)
	}
	if len(wrong) > 0 {
		return nil
	}
	return s.semantics(ctx)
}

// semantics are the rules of the controllers, for objects of the right form.
func (s subject) semantics(ctx context.Context) error {
	switch s.object.GroupVersionKind() {
	case machinev1.GroupVersion.WithKind(machinev1.MachineDeploymentKind):
		d := &machinev1.MachineDeployment{}
		s.decoded(d, func() { s.tell(Error, machinedeployment.Check(d)...) })
	case machinev1.GroupVersion.WithKind(machinev1.MachineSetKind):
		set := &machinev1.MachineSet{}
		s.decoded(set, func() { s.tell(Error, machineset.Check(set)...) })
	case machinev1.GroupVersion.WithKind(machinev1.MachineKind):
		m := &machinev1.Machine{}
		s.decoded(m, func() {
			if m.Spec.Class.Name == "" {
				s.found(Error, "spec.class.name", "is missing; name a MachineClass")
			}
		})
	case machinev1.GroupVersion.WithKind(machinev1.MachineClassKind):
		class := &machinev1.MachineClass{}
		var err error
		s.decoded(class, func() { err = s.class(ctx, class) })
		return err
	}
	return nil
}

// decoded calls judge with the object as the controllers see it. Some values are checked by no
// schema, e.g. quantities.
func (s subject) decoded(into client.Object, judge func()) {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(s.object.Object, into); err != nil {
		s.found(Error, "", "cannot be read: %v; correct it", err)
		return
	}
	judge()
}
