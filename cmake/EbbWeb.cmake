# ebb_web_report(target): compiles templates, styles and scripts of web/report and web/lending, and the chart library
# (npm), into `target` as ebb::embedded::report_files. npm works in a copy in the build folder, again whenever the lock file changes.

function(ebb_web_report target)
  set(source ${PROJECT_SOURCE_DIR}/web/report)
  set(lending ${PROJECT_SOURCE_DIR}/web/lending)
  set(copy ${PROJECT_BINARY_DIR}/web/report)
  set(vendor ${PROJECT_BINARY_DIR}/web/vendor)
  find_program(EBB_NPM npm)
  if(NOT EBB_NPM)
    message(FATAL_ERROR "npm not found; it fetches the chart library of the report page (web/report). "
      "Install it: apt-get install nodejs npm")
  endif()
  add_custom_command(
    OUTPUT ${vendor}/uPlot.iife.min.js ${vendor}/uPlot.min.css ${vendor}/uPlot.LICENSE
    COMMAND ${CMAKE_COMMAND} -E make_directory ${copy} ${vendor}
    COMMAND ${CMAKE_COMMAND} -E copy ${source}/package.json ${source}/package-lock.json ${copy}
    COMMAND ${CMAKE_COMMAND} -E chdir ${copy} ${EBB_NPM} ci --ignore-scripts --no-audit --no-fund
    COMMAND ${CMAKE_COMMAND} -E copy ${copy}/node_modules/uplot/dist/uPlot.iife.min.js
      ${copy}/node_modules/uplot/dist/uPlot.min.css ${vendor}
    COMMAND ${CMAKE_COMMAND} -E copy ${copy}/node_modules/uplot/LICENSE ${vendor}/uPlot.LICENSE
    DEPENDS ${source}/package.json ${source}/package-lock.json
    COMMENT "Fetching the chart library of the report page (npm ci)" VERBATIM)
  ebb_embed(${target} SYMBOL report_files FILES
    ${source}/head.html ${source}/errors.js ${source}/template.html ${source}/report.css ${source}/format.js ${source}/charts.js ${source}/usage.js
    ${source}/gantt.js ${source}/report.js
    ${lending}/lending.html ${lending}/lending.css ${lending}/lending.js
    ${vendor}/uPlot.iife.min.js ${vendor}/uPlot.min.css ${vendor}/uPlot.LICENSE)
  if(EBB_TESTS)
    find_program(EBB_NODE node REQUIRED)
    add_test(NAME web_report COMMAND ${EBB_NODE} --test ${source}/format.test.js)
  endif()
endfunction()
