package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldOwner is who the applied fields belong to.
const fieldOwner = "test-cluster"

// ApplyFile applies every object of a YAML file, server-side, CRDs first, and
// returns when their kinds are served.
func (c *Cluster) ApplyFile(ctx context.Context, path string) error {
	return c.apply(ctx, []string{path})
}

// ApplyDir applies every *.yaml and *.yml below a folder, as ApplyFile.
// kustomization.yaml is left out.
func (c *Cluster) ApplyDir(ctx context.Context, path string) error {
	return c.apply(ctx, []string{path})
}

// Apply applies objects in the given order, server-side, except that CRDs and
// then Namespaces come first.
func (c *Cluster) Apply(ctx context.Context, objects ...*unstructured.Unstructured) error {
	if len(objects) == 0 {
		return nil
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	cl, err := client.New(c.Config(), client.Options{})
	if err != nil {
		return err
	}
	objects = slices.Clone(objects)
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	crds := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return rank(o) > 0 })
	if crds < 0 {
		crds = len(objects)
	}
	if err := applyEach(ctx, cl, objects[:crds]); err != nil {
		return err
	}
	for _, crd := range objects[:crds] {
		if err := c.awaitServed(ctx, cl, crd); err != nil {
			return err
		}
	}
	return applyEach(ctx, cl, objects[crds:])
}

func (c *Cluster) apply(ctx context.Context, paths []string) error {
	var all []*unstructured.Unstructured
	for _, path := range paths {
		objects, err := Read(path)
		if err != nil {
			return err
		}
		all = append(all, objects...)
	}
	return c.Apply(ctx, all...)
}

func applyEach(ctx context.Context, cl client.Client, objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		applied := client.ApplyConfigurationFromUnstructured(o.DeepCopy())
		if err := cl.Apply(ctx, applied, client.FieldOwner(fieldOwner), client.ForceOwnership); err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), client.ObjectKeyFromObject(o), err)
		}
	}
	return nil
}

func rank(o *unstructured.Unstructured) int {
	switch o.GetKind() {
	case "CustomResourceDefinition":
		return 0
	case "Namespace":
		return 1
	}
	return 2
}

// awaitServed waits until a CRD is established and lists of its stored version
// answer, which is a moment later.
func (c *Cluster) awaitServed(ctx context.Context, cl client.Client, crd *unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	version := servedVersion(crd)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: kind + "List"})
	var last error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		last = established(ctx, cl, crd)
		if last == nil {
			last = cl.List(ctx, list, client.Limit(1))
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for CRD %s: %w", crd.GetName(), errors.Join(err, last))
	}
	return nil
}

func established(ctx context.Context, cl client.Client, crd *unstructured.Unstructured) error {
	seen := &unstructured.Unstructured{}
	seen.SetGroupVersionKind(crd.GroupVersionKind())
	if err := cl.Get(ctx, client.ObjectKeyFromObject(crd), seen); err != nil {
		return err
	}
	conditions, _, _ := unstructured.NestedSlice(seen.Object, "status", "conditions")
	for _, entry := range conditions {
		condition, _ := entry.(map[string]any)
		if condition["type"] == "Established" && condition["status"] == "True" {
			return nil
		}
	}
	return errors.New("it is not established")
}

func servedVersion(crd *unstructured.Unstructured) string {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, entry := range versions {
		if version, _ := entry.(map[string]any); version["served"] == true {
			name, _ := version["name"].(string)
			return name
		}
	}
	return ""
}

// Read returns the objects of a YAML file, or of all YAML files below a folder
// in the order of their paths.
func Read(path string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	err := filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || (file != path && !isManifest(file)) {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		decoded, err := Decode(text)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		objects = append(objects, decoded...)
		return nil
	})
	return objects, err
}

func isManifest(file string) bool {
	base := filepath.Base(file)
	return (strings.HasSuffix(base, ".yaml") || strings.HasSuffix(base, ".yml")) && base != "kustomization.yaml"
}

// Decode returns the objects of a YAML text; empty documents are left out.
func Decode(text []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}
