package driverkit

import (
	"context"
	"iter"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Pages yields what a cloud lists page by page. Page returns the items of the page with
// this token, "" for the first, and the token of the next one, "" after the last. It stops
// after the first error, and asks for no page before it is wanted. Whoever counts the pages of ctx sees each one.
func Pages[T any](ctx context.Context,
	page func(ctx context.Context, token string) (items []T, next string, err error),
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for token := ""; ; {
			cloud.PageAsked(ctx)
			items, next, err := page(ctx, token)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			token = next
		}
	}
}

// Select yields what pick returns for each item, without those for which it returns
// false. It stops after the first error of either.
func Select[T, R any](all iter.Seq2[T, error], pick func(T) (R, bool, error)) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		for item, err := range all {
			var picked R
			wanted := true
			if err == nil {
				picked, wanted, err = pick(item)
			}
			if err != nil {
				yield(picked, err)
				return
			}
			if wanted && !yield(picked, nil) {
				return
			}
		}
	}
}

// Collect returns all items, or the first error.
func Collect[T any](all iter.Seq2[T, error]) ([]T, error) {
	var items []T
	for item, err := range all {
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// KindList yields all resources of one kind that are the class's.
type KindList struct {
	Kind cloud.Kind
	All  iter.Seq2[cloud.Resource, error]
}

// List is Account.List: it yields the resources of these kinds, no kinds are all, and
// stops after the first error, whose code is one that List may return.
func List(kinds []cloud.Kind, lists ...KindList) iter.Seq2[cloud.Resource, error] {
	return func(yield func(cloud.Resource, error) bool) {
		for _, list := range lists {
			if !cloud.Wants(kinds, list.Kind) {
				continue
			}
			for r, err := range list.All {
				if err != nil {
					yield(cloud.Resource{}, Restrict(err))
					return
				}
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

// Failed yields one error, e.g. that of a class that cannot be listed.
func Failed[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		yield(none, err)
	}
}

// VMResource returns a VM as an entry of a listing, with its tags as they were given to
// Create.
func VMResource(vm cloud.VM, tags map[string]string) cloud.Resource {
	return cloud.Resource{
		Kind: cloud.KindVM, ID: vm.ID, MachineName: vm.Name, OwnerID: vm.OwnerID, Created: vm.Created, VM: &vm, Tags: tags,
	}
}
