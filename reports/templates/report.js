// A closed <details> does not print: open them all for paper, and put them back.
(function () {
  var opened = [];
  addEventListener("beforeprint", function () {
    document.querySelectorAll("details:not([open])").forEach(function (one) {
      one.open = true;
      opened.push(one);
    });
  });
  addEventListener("afterprint", function () {
    opened.splice(0).forEach(function (one) { one.open = false; });
  });
})();
