package validate

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/capmcm/cluster-api-provider-mcm/config/crd"
)

// schemas are what the API server checks objects of our kinds with.
type schemas map[schema.GroupVersionKind]*apiextensions.JSONSchemaProps

// loadSchemas reads the CustomResourceDefinitions of this program's version.
func loadSchemas() (schemas, error) {
	names, err := fs.Glob(crd.Files, "*.yaml")
	if err != nil {
		return nil, err
	}
	found := schemas{}
	for _, name := range names {
		text, err := crd.Files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, definition); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, v := range definition.Spec.Versions {
			props := &apiextensions.JSONSchemaProps{}
			from := v.Schema.OpenAPIV3Schema
			err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(from, props, nil)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			group, kind := definition.Spec.Group, definition.Spec.Names.Kind
			found[schema.GroupVersionKind{Group: group, Version: v.Name, Kind: kind}] = props
		}
	}
	return found, nil
}

// check does with a new object what the API server does: it drops unknown fields, which it
// returns, fills in defaults and then validates. The object is changed.
func check(ctx context.Context, props *apiextensions.JSONSchemaProps, object map[string]any,
) (unknown []string, wrong field.ErrorList, err error) {
	structural, err := structuralschema.NewStructural(props)
	if err != nil {
		return nil, nil, err
	}
	validator, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		return nil, nil, err
	}
	unknown = pruning.PruneWithOptions(object, structural, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.Default(object, structural)
	wrong = append(validation.ValidateCustomResource(nil, object, validator),
		listtype.ValidateListSetsAndMaps(nil, structural, object)...)
	if len(wrong) > 0 {
		return unknown, wrong, nil // rules are about objects of the right form
	}
	rules := cel.NewValidator(structural, true, celconfig.PerCallLimit)
	wrong, _ = rules.Validate(ctx, nil, structural, object, nil, math.MaxInt64)
	return unknown, wrong, nil
}

// say is what is wrong with a field, and the remedy. It quotes no value: that might be a secret.
func say(e *field.Error) string {
	detail := strings.TrimPrefix(e.Detail, e.Field+" in body ")
	switch {
	case e.Type == field.ErrorTypeRequired:
		return "is missing; set it"
	case e.Type == field.ErrorTypeNotSupported:
		return "has another value; use one of the " + detail
	case e.Type == field.ErrorTypeDuplicate:
		return "is there twice; remove one"
	case detail != e.Detail: // of the schema, which has no remedies; those of rules are ours
		return detail + "; correct it"
	}
	return detail
}
