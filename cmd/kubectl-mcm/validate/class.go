package validate

import (
	"context"
	"encoding/base64"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/bootdata"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	classes "github.com/capmcm/cluster-api-provider-mcm/controllers/class"
)

// class lets its driver judge a class and its Secrets, by the rules of those who name it.
func (s subject) class(ctx context.Context, class *machinev1.MachineClass) error {
	users := s.manifests.users(class)
	var checks []classes.Check
	if users[native] || !users[clusterAPI] && !users[bootData] {
		found, err := classes.CheckObject(ctx, s.clouds, s.manifests, class)
		if err != nil {
			return err
		}
		checks = append(checks, found)
	}
	if users[clusterAPI] || users[bootData] {
		found, err := classes.CheckForClusterAPI(ctx, s.clouds, s.manifests, class)
		if err != nil {
			return err
		}
		checks = append(checks, found)
	}
	s.problems(checks, users)
	return nil
}

// problems adds what was found, each once: both APIs find mostly the same.
func (s subject) problems(checks []classes.Check, users map[use]bool) {
	var told []cloud.Problem
	tell := func(problems []cloud.Problem, severity Severity) {
		for _, p := range problems {
			if !slices.Contains(told, p) {
				told = append(told, p)
				s.tell(severity, p)
			}
		}
	}
	for _, c := range checks {
		tell(c.Spec, Error)
		if len(c.Gone) > 0 {
			for _, p := range c.Gone {
				tell([]cloud.Problem{{Severity: p.Severity, Field: p.Field, Message: "these files do not have the Secret, " +
					"so that neither credentials nor boot data were judged"}}, Note)
			}
			continue
		}
		tell(c.Secrets, Error)
		switch {
		case users[native] || users[bootData]:
			tell(c.BootData, Error)
		case !users[clusterAPI]:
			tell(c.BootData, Note) // it may be for machines with boot data of their own
		}
	}
}

// secret decodes a Secret, and keeps it for the classes that name it. Its values are never printed.
func (s subject) secret() {
	secret := &corev1.Secret{}
	content := runtime.DeepCopyJSON(s.object.Object)
	data, _, _ := unstructured.NestedMap(content, "data")
	delete(content, "data")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, secret); err != nil {
		s.found(Error, "stringData", "has an entry that is no text; quote it")
		return
	}
	secret.Data = map[string][]byte{}
	for key, value := range data {
		text, isText := value.(string)
		decoded, err := base64.StdEncoding.DecodeString(text)
		if !isText || err != nil {
			s.found(Error, "data."+key, "is not base64; encode it, or use stringData")
			continue
		}
		secret.Data[key] = decoded
	}
	for key, value := range secret.StringData {
		secret.Data[key] = []byte(value)
	}
	for key := range secret.Data {
		for _, wrong := range validation.IsConfigMapKey(key) {
			s.found(Error, "data."+key, "is no name of an entry: %s", wrong)
		}
	}
	s.manifests.keep(secretKind, secret)
}

// entry checks that a Secret has an entry that an object takes from it.
func (s subject) entry(field string, key client.ObjectKey) {
	secret, ok := s.manifests.objects[id(secretKind, key)].(*corev1.Secret)
	if !ok {
		return
	}
	if _, err := bootdata.FromSecret(secret.Data); err != nil {
		s.found(Error, field, "Secret %q %s", key.Name, err)
	}
}
