// Package view is what a document says on paper, in words and in print order, before any layout: parties, lines, sums, with the
// texts of the catalogues. Amounts are printed digit for digit, as the document has them.
package view
