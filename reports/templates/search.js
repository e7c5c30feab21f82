// Search: a row of a table stays if it has all words; so does a section that has such a row.
(function () {
  var input = document.getElementById("search");
  var matches = document.getElementById("matches");
  var tables = Array.from(document.querySelectorAll("figure.table")).map(function (figure) {
    var rows = Array.from(figure.querySelectorAll("tbody tr")).map(function (row) {
      return { row: row, text: row.textContent.toLowerCase() };
    });
    return { figure: figure.closest("section") || figure, rows: rows };
  });
  function search() {
    var words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    var shown = 0, all = 0;
    tables.forEach(function (table) {
      var here = 0;
      table.rows.forEach(function (entry) {
        var fits = words.every(function (word) { return entry.text.includes(word); });
        entry.row.hidden = !fits;
        here += fits;
      });
      table.figure.hidden = words.length > 0 && here === 0;
      shown += here;
      all += table.rows.length;
    });
    matches.textContent = words.length ? shown + " of " + all + " rows" : "";
  }
  input.addEventListener("input", search);
  input.closest(".search").hidden = false;
  search();
})();
