package sim

import (
	"cmp"
	"container/heap"
	"slices"
)

// goneHeap holds resources whose end is known, the next to go first.
type goneHeap []*Resource

func (h *goneHeap) push(r *Resource) { heap.Push((*goneOrder)(h), r) }

func (h *goneHeap) pop() *Resource { return heap.Pop((*goneOrder)(h)).(*Resource) }

// goneOrder is what package container/heap needs to see of a goneHeap. A VM
// goes before the parts that were made after it.
type goneOrder []*Resource

func (h goneOrder) Len() int      { return len(h) }
func (h goneOrder) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h goneOrder) Less(i, j int) bool {
	if !h[i].Gone.Equal(h[j].Gone) {
		return h[i].Gone.Before(h[j].Gone)
	}
	return h[i].Seq < h[j].Seq
}
func (h *goneOrder) Push(x any) { *h = append(*h, x.(*Resource)) }
func (h *goneOrder) Pop() any {
	old := *h
	last := len(old) - 1
	out := old[last]
	old[last] = nil
	*h = old[:last]
	return out
}

// sortedBySeq sorts resources by the order of making, in place.
func sortedBySeq(all []*Resource) []*Resource {
	slices.SortFunc(all, func(a, b *Resource) int { return cmp.Compare(a.Seq, b.Seq) })
	return all
}
